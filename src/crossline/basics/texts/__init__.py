"""Texts that people write and read: YAML, JSON, and what is wrong in them."""
