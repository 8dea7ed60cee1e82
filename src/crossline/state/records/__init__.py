"""What the kernel keeps of records beside their rows: lists by key and time, tables of ids, keys and values."""
