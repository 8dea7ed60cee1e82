"""What shards keep of their keys, and the compiled kernels that judge it."""
