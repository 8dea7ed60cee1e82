"""Hits become what people and programs read."""
