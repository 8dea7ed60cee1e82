"""Avro schemas from a schema registry, cached for ever."""
