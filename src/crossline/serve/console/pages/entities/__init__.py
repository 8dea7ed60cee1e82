"""Who this is now, and what stopping it would stop."""
