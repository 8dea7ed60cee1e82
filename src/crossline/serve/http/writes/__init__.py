"""Routes that change something."""
