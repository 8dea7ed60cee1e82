"""What a drill leaves to read."""
