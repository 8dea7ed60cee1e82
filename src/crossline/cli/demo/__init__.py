"""``crossline demo``."""
