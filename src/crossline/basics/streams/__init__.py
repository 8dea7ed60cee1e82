"""What a stream's records look like."""
