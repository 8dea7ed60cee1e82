"""A case."""
