"""Health of the pipeline: each figure of its run against what it is held against."""
