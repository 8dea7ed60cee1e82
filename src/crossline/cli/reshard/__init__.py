"""``crossline reshard``."""
