"""Takes alerts as batches give them, and makes cases of them."""
