"""A client of the decision API: its requests, its time limits, and the answers that it gets."""
