"""Routes that read."""
