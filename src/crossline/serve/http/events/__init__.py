"""Server-sent events: what happens, as it happens."""
