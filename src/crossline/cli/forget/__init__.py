"""``crossline forget``: erasure of a person."""
