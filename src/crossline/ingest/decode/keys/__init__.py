"""Kernels for keys: texts to numbers, pairs of them, and their rows by shard."""
