"""What an alert asks of decisions for a time, for all records of its key."""
