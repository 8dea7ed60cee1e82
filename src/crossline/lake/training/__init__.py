"""Training sets: figures of records with their labels, the last word on each label, and parity with the stream."""
