"""Catalogs behind a server, and the error of one that does not answer."""
