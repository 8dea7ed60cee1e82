"""What is measured of a pipeline, and how it is read: metrics, traces, objectives, limits."""
