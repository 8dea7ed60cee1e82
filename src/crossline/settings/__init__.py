"""What a pipeline file says."""
