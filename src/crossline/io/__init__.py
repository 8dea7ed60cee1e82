"""Sources and sinks: one system, one file."""
