"""Alerts and decisions in a SQLite file."""
