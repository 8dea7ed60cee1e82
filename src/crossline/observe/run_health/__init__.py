"""Health of a run, for other processes: its metrics and minutes, each with its limit."""
