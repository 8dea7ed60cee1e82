"""``crossline rules``."""
