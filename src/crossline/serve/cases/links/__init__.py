"""Who else belongs to an entity: others that stand beside it in alerts, step by step."""
