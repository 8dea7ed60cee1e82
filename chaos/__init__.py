"""The chaos drill: faults of all kinds at load, and whether anything was lost or came twice."""
