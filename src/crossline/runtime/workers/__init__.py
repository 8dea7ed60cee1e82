"""The Python processes beside Spark: what they are forked from, and those that keep state."""
