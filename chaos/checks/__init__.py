"""What the sinks must hold, what they hold, and the differences."""
