"""What was answered, and why."""
