"""Compiled functions: kept on disk as object code, which llvmlite alone loads; numba is loaded only to compile."""
