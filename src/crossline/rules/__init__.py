"""Rules: models, conditions, error report."""
