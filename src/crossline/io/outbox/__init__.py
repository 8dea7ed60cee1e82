"""Sinks that no batch waits for: what they are to get stands on the disk until they have it."""
