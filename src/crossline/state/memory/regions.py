"""Large arrays of bytes that grow in place, on huge pages beyond their first megabytes, where the system has these.

A state of many records is read at random: with small pages, looking up where a page is costs as much as reading it.
A page is huge only where a whole one fits at an address of its size, and one that is moved elsewhere is broken up. So
a region begins at such an address and has reserved addresses to grow into; memory is allocated as it is written.

What is smaller stands in Python's heap, at an address where a line of the processor's cache begins: a block of a hash
table is such a line, and one that was called for, not half of two.

A huge page is zeroed when it is first written, 0.1 ms where the host has memory for it, and 2 to 4 ms where a virtual
machine has to ask for that, while a batch waits. So what a processor's caches can look up anyway is on small pages,
and whoever knows where a large region will be written next says so, for the pages there to be got before.
"""

from __future__ import annotations

import mmap
import sys

import numpy as np

from crossline.basics.values import U8
from crossline.state.memory.pages_ahead import AHEAD, PAGE

MAPPED_FROM = 4 << 20  # bytes; what is smaller is an array of Python's heap
LINE = 64  # bytes of a line of the processor's cache
SMALL_PAGES = 32 << 20  # bytes
_STEP = 16 * PAGE
SET_ASIDE = 8 << 30  # bytes of addresses, which cost nothing: moving a region copies it, while a batch waits
_AHEAD = 4  # times the size, where that is more, or where the system will not promise so much
EXPECTED_FROM = 8 << 20  # bytes: of what is smaller no page is got ahead
_EXPECTED, _EXPECTED_OF = 2 * PAGE, 4  # at most so many bytes ahead, and the part of what is in use
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
# Linux does not count such addresses as promised; the name came to Python later than the flag to Linux.
_UNCOUNTED: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


class Region:
    """``array``: uint8, zero where never written. No other view of it may live while it is resized.

    ``set_aside``: bytes of addresses that it may grow into in place. ``small_pages``: how many bytes at its beginning
    are on small pages. ``dropped``: how many have no memory.
    """

    def __init__(self, size: int = 0, set_aside: int = SET_ASIDE, small_pages: int = SMALL_PAGES) -> None:
        self._map: mmap.mmap | None = None
        self._whole: U8 = np.zeros(0, np.uint8)
        self._heap: U8 = np.zeros(LINE, np.uint8)
        self.array: U8 = self._heap[:0]
        self.dropped = 0
        self._expected = range(0)  # pages that were got ahead last
        self._set_aside, self._small_pages = set_aside, small_pages
        self.resize(size)

    def resize(self, size: int) -> None:
        """Keep what fits in ``size`` bytes. The address may change."""
        if self._map is None and (size < MAPPED_FROM or _ADVICE is None):
            self._resize_heap(size)
            return
        if size > len(self._whole):
            self._move(size)
        elif size < len(self.array):
            self._whole[size : -(-size // PAGE) * PAGE] = 0  # what is left of its last page
            self._give_back(-(-size // PAGE) * PAGE, max(len(self.array), self._expected.stop * PAGE))
            self._expected = range(0)
        self.array = self._whole[:size]

    def _resize_heap(self, size: int) -> None:
        heap, before, kept = self._heap, self.array, min(size, len(self.array))
        start = before.ctypes.data - heap.ctypes.data if kept else 0
        used = len(heap)
        heap.resize(size + LINE, refcheck=False)  # in place where the system can move its pages
        begins = -heap.ctypes.data % LINE
        if begins != start:
            heap[begins : begins + kept] = heap[start : start + kept].copy()
        heap[begins + kept : used] = 0  # what it had there before
        self.array = heap[begins : begins + size]

    def drop(self, size: int) -> None:
        """Nothing of the first ``size`` bytes is needed any more: give their whole pages back. They read as zero."""
        end = size // PAGE * PAGE
        if self._map is not None and end > self.dropped:
            self._give_back(self.dropped, end)
            self.dropped = end

    def expect_growth(self, used: int) -> None:
        """``used`` bytes are in use, or are in no time; then it is written on from there."""
        self.expect(used, used + ahead_of(used))

    def expect(self, start: int, end: int) -> None:
        """Bytes from ``start`` to ``end`` will be written soon, for the first time: have the huge pages there got.

        At each call a little further up, or a little further down: pages of the call before are not got again.
        """
        if self._map is None or start >= end:
            return
        first = max(start, self.dropped, self._small_pages) // PAGE
        pages = range(first, max(first, min(-(-end // PAGE), len(self._whole) // PAGE)))
        new = [page for page in pages if page not in self._expected]
        if new:
            begins = self._whole.ctypes.data
            AHEAD.ask(self._map, [begins + page * PAGE for page in new])
        if pages:
            self._expected = pages

    def room(self) -> int:
        """Bytes that it can have where it is; while it is small, it can be moved in no time."""
        return len(self._whole) if self._map is not None else self._set_aside

    def _move(self, size: int) -> None:
        """To addresses with room for ``size`` bytes and more."""
        old, old_map, old_whole = self.array, self._map, self._whole
        if old_map is not None:
            AHEAD.forget(old_whole.ctypes.data, old_whole.ctypes.data + len(old_whole))
            self._expected = range(0)
        pages = -(-size // PAGE)
        made = _addresses(max(pages * _AHEAD, self._set_aside // PAGE), pages * _AHEAD, pages)
        whole = np.frombuffer(made, np.uint8)
        skipped = -whole.ctypes.data % PAGE
        self._map, self._whole = made, whole[skipped:]
        self._heap = np.zeros(0, np.uint8)
        if _ADVICE is not None and len(self._whole) > self._small_pages:
            made.madvise(_ADVICE, skipped + self._small_pages)
        for start in range(self.dropped, len(old), _STEP):
            part = old[start : start + _STEP]
            self._whole[start : start + len(part)] = part
            if old_map is not None:  # so that not all of it is there twice
                _forget(old_map, old_whole, start, min(start + _STEP, len(old_whole)))

    def _give_back(self, start: int, end: int) -> None:
        if self._map is not None and start < end:
            end = min(-(-end // PAGE) * PAGE, len(self._whole))
            AHEAD.forget(self._whole.ctypes.data + start, self._whole.ctypes.data + end)
            _forget(self._map, self._whole, start, end)


def ahead_of(used: int) -> int:
    """How many bytes beyond ``used`` to get ahead."""
    return min(_EXPECTED, used // _EXPECTED_OF // PAGE * PAGE) if used >= EXPECTED_FROM else 0


def _addresses(*pages: int) -> mmap.mmap:
    """Addresses of as many pages as the system will promise, and one more, as the first may not begin as one."""
    for count in pages[:-1]:
        try:
            return mmap.mmap(-1, (count + 1) * PAGE, flags=_FLAGS | _UNCOUNTED)
        except OSError:
            continue
    return mmap.mmap(-1, (pages[-1] + 1) * PAGE, flags=_FLAGS)


def _forget(made: mmap.mmap, whole: U8, start: int, end: int) -> None:
    """Give the memory from ``start``, where a page begins, to ``end`` back; it reads as zero."""
    skipped = whole.ctypes.data - np.frombuffer(made, np.uint8).ctypes.data
    made.madvise(mmap.MADV_DONTNEED, skipped + start, end - start)
