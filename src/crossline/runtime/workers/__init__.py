"""The Python processes beside Spark: fork servers and state servers."""
