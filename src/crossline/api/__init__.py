"""The Python library: it judges records of Arrow libraries, dicts or Spark frames, and returns alerts and features."""
