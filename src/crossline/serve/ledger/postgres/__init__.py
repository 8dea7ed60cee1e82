"""A ledger in PostgreSQL, for the APIs of several machines."""
