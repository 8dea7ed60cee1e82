"""Naive twins: slow, obviously right answers that the fast kernels are compared with."""
