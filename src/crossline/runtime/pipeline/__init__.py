"""A pipeline: put together, started, its batches, its end."""
