"""Routes of cases: the queue, acts, views, suppressions."""
