"""Who else belongs to an entity."""
