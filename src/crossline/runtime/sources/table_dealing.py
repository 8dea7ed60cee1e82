"""Pieces of Parquet files, dealt out to processes so that each group of rows is read by one of them.

A group is read from its start: who reads a piece within it has read what is before that too. So a piece goes to the
process that has read the one before, unless another has so much less to read that it may as well begin the group anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from crossline.io.chunks import ChunkRef
from crossline.io.files.parquet_rows import group_ends, rows_between
from crossline.runtime.sources.references import deal_chunks


class TableDealer:
    """Deals out the pieces of files to ``count`` processes, batch by batch, in their order.

    ``group_bytes_max``: groups that are larger, as pieces weigh, are read by each process: there are too few of them
    under way for all to have one. ``read``: by process, bytes so far, those read for nothing included.
    """

    def __init__(self, count: int, group_bytes_max: int) -> None:
        self.read = [0] * count
        self._group_bytes_max = group_bytes_max
        self._ends: dict[tuple[str, int | None], list[int]] = {}
        self._reached: dict[tuple[str, int], int] = {}  # by file and row: the process that has read up to it

    def deal(self, chunks: Sequence[ChunkRef]) -> list[list[ChunkRef]]:
        """The pieces of a batch, by process; each has its own in their order."""
        if not all(map(self._fits, chunks)):
            return deal_chunks(chunks, len(self.read))
        dealt: list[list[ChunkRef]] = [[] for _ in self.read]
        for chunk in chunks:
            first, end = rows_between(chunk)
            reached = self._reached.pop((chunk.path, first), None)
            before = (first - self._group_start(chunk, first)) * (chunk.row_bytes or 1)
            # The one that has read what is before comes first among equals.
            costs = [(self.read[each] + (0 if each == reached else before), each != reached) for each in self._all]
            process = min(self._all, key=costs.__getitem__)
            self.read[process] = costs[process][0] + chunk.end - chunk.start
            self._reached[chunk.path, end] = process
            dealt[process].append(chunk)
        return dealt

    @property
    def _all(self) -> range:
        return range(len(self.read))

    def _fits(self, chunk: ChunkRef) -> bool:
        """Whether it begins a file, or is of one without large groups. What is no table does not."""
        if chunk.row_bytes is None or not chunk.start:
            return chunk.row_bytes is not None
        ends = self._groups(chunk)
        sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        return bool(sizes) and max(sizes) * chunk.row_bytes <= self._group_bytes_max

    def _group_start(self, chunk: ChunkRef, row: int) -> int:
        if not row:
            return 0
        ends = self._groups(chunk)
        number = bisect_right(ends, row)
        return ends[number - 1] if number else 0

    def _groups(self, chunk: ChunkRef) -> list[int]:
        key = chunk.path, chunk.packed
        if key not in self._ends:
            self._ends[key] = group_ends(chunk)
        return self._ends[key]
