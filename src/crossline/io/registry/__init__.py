"""Schemas of records, from a registry: asked for once, and kept."""
