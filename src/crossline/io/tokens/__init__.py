"""The keys of persons, by which the values of sensitive fields become tokens."""
