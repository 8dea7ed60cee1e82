"""Rules weighed over a sample: near misses, cost, lines, and what only one of two catches."""
