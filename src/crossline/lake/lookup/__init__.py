"""Looks alerts, decisions and their records up in the tables, and reads tables in order of time."""
