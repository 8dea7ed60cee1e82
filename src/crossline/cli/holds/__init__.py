"""``crossline holds``: what people hold of decisions."""
