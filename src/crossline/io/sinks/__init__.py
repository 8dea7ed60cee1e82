"""What a sink is, and the sinks that write files."""
