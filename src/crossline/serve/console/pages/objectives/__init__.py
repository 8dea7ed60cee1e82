"""Objectives: promised, kept or not, and what is left."""
