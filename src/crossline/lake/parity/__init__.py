"""Parity: whether the stream, the API and a replay of the lake have the same figures of the same records."""
