"""Snapshots of a pipeline's state in the lake: taken beside a run, kept, and restored to a checkpoint."""
