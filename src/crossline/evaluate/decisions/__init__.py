"""What is done about a record: its hits under a policy."""
