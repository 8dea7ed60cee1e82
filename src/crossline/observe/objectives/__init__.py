"""Objectives: what is counted minute by minute, whether it is kept, what is left of the error budget."""
