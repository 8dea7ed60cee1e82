"""Peer systems that do what crossline does, built as an expert of each would build them."""
