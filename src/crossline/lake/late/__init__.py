"""Records beyond the allowed lateness, and what they would have changed."""
