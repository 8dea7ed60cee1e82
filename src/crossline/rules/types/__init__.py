"""Rule types: one file each."""
