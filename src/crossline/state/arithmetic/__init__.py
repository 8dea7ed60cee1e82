"""Sums that lose nothing: in pairs of floats, in 128 bits, in as many as it takes."""
