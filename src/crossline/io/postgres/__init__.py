"""PostgreSQL: alerts, decisions and all else that batches give, for investigators and auditors."""
