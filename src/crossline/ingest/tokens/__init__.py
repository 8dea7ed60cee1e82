"""Tokens in the place of the values of sensitive fields."""
