"""What people do with cases: one act at a time or on many at once, and how it is undone."""
