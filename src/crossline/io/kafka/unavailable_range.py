"""Ranges of offsets, and the error of a range that cannot be read. Imports no client."""

from __future__ import annotations

Place = tuple[str, int]  # topic, partition
Range = tuple[int, int]  # [begin, end)


class RangeUnavailableError(Exception):
    """A range cannot be read: its records are late or deleted, or the broker reports another error."""
