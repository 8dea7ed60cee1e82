"""``crossline alerts``."""
