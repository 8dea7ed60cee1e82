"""What changes while batches run: rules and lists, and the past that new rules begin with."""
