"""The settings of a pipeline file."""
