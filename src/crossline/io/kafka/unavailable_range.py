"""Ranges of offsets, and that one cannot be read. No client is loaded for it."""

from __future__ import annotations

Place = tuple[str, int]  # topic, partition
Range = tuple[int, int]  # the first offset, and the one behind the last


class RangeUnavailableError(Exception):
    """A range cannot be read: its records are not there in time, or gone, or the broker says anything else."""
