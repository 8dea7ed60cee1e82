"""Redis: the current status of entities, the last decision about records, alerts once."""
