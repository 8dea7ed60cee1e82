"""What the API counts of itself, and the page of it that Prometheus reads."""
