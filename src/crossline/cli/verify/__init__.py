"""``crossline verify``: receipts checked, and judged again from the log."""
