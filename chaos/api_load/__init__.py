"""A caller of the decision API: what it asks, how long it waits, what it is answered."""
