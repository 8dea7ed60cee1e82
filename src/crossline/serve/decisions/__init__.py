"""Decisions over HTTP: what a request is, what judges it, what is answered, and what is kept of it."""
