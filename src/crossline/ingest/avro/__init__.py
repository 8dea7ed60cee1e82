"""Avro: schemas as values, records read by their writer's schema; nothing in here knows where a schema comes from."""
