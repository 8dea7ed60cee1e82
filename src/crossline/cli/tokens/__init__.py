"""``crossline tokens``."""
