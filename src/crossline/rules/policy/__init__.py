"""Policies: what the hits on a record come to, and what is answered where nothing is known."""
