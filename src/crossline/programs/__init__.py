"""What rules ask of the records of a key."""
