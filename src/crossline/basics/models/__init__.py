"""Models: graphs as bytes, what they take and give, and the scores of records."""
