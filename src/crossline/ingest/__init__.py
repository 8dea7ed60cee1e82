"""From bytes to rows of shards: records are read, checked, given fields of tables, and routed by key."""
