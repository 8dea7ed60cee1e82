"""The results of a drill."""
