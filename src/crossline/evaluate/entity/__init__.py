"""The figures of one key as of an instant, without a record: point queries on state."""
