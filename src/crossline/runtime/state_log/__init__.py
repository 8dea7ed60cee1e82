"""What shards keep between batches: a log of segments, the workers' caches of it, and the past of new state stores."""
