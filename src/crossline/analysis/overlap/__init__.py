"""Overlap of rules and versions: rules that another one subsumes, and shares of keys."""
