"""Conditions on a record: a typed tree, and what evaluates it over columns or one record."""
