"""Observability of a pipeline: metrics, traces, objectives, limits."""
