"""``crossline decisions``."""
