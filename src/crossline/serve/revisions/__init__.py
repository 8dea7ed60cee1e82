"""Notifies other systems where the stream decided otherwise than the API answered."""
