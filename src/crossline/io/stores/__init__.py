"""Alerts and decisions that were delivered, read again, whatever they lie in."""
