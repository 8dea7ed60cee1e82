"""Labels, notes and cases: what people found out about records and alerts, in one SQLite file."""
