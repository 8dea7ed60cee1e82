"""Tables whose rows are messages of a topic."""
