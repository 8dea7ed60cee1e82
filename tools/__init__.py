"""What builds, checks and documents crossline, outside of its wheel."""
