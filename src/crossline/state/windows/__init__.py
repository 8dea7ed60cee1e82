"""Window kernels: they know records, keys and windows, and no rule."""
