"""The chaos drill: faults of all kinds under load, and a check that nothing was lost and nothing came twice."""
