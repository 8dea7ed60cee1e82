"""What must be at the sinks, what is there, and what differs."""
