"""The writer: follows committed batches and appends them to the tables once."""
