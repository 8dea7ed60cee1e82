"""Records to the shards and stores of their keys."""
