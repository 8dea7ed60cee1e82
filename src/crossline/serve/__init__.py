"""What serves others while a pipeline runs."""
