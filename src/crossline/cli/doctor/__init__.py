"""``crossline doctor``."""
