"""Aggregates: one file each, with all that is particular to it (see ``programs/aggregate.py``)."""
