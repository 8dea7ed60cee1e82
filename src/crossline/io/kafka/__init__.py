"""Kafka: topics that are read, and the sink."""
