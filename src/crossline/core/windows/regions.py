"""Large zeroed arrays of bytes on huge pages, where the system has them, that grow in place.

A state of many records is read at random: with small pages, looking up where a page is costs as much as reading it.
"""

from __future__ import annotations

import mmap

import numpy as np

from crossline.core.values import U8

HUGE_FROM = 4 << 20
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


class Region:
    """``array``: uint8, zero where never written. No other view of it may live while it is resized."""

    def __init__(self, size: int = 0) -> None:
        self._map: mmap.mmap | None = None
        self.array: U8 = np.zeros(0, np.uint8)
        self.resize(size)

    def resize(self, size: int) -> None:
        """Keep what fits in ``size`` bytes. The address may change."""
        if self._map is not None:
            self.array = np.zeros(0, np.uint8)
            self._map.resize(max(size, 1))
        elif size >= HUGE_FROM and _ADVICE is not None:
            old, self._map = self.array, mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._map.madvise(_ADVICE)
            self._map[: len(old)] = old.tobytes()
        else:
            self.array.resize(size, refcheck=False)
            return
        if _ADVICE is not None:
            self._map.madvise(_ADVICE)
        self.array = np.frombuffer(self._map, np.uint8, size)
