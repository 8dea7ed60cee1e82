"""``crossline slo``."""
