"""A shard judges its part of a batch."""
