"""Buffers for the hits of a batch, and the hits in them with the ids and values of their evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import I64
from crossline.programs.kinds import ColumnKind
from crossline.state.batch import Hits
from crossline.state.memory import layout as at
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.verdicts.record_emission import EVIDENCE_MAX

Columns = tuple[tuple[str, ColumnKind], ...]


class Buffers:
    """Room for hits, kept from batch to batch, known to the kernel through ``memory``."""

    def __init__(self, memory: MemoryMap) -> None:
        self._memory = memory
        self._arrays: dict[int, np.ndarray[Any, np.dtype[Any]]] = {}
        self.grow()

    def grow(self) -> None:
        """Room for twice the hits noted so far, which are kept, and in any case for all that one row may have."""
        words = self._memory.words
        hits, evidence = int(words[at.N_HITS]), int(words[at.N_EVIDENCE])
        row = int(max(words[at.LINES], words[at.FORMULAS]))
        words[at.OUT_ROOM], words[at.EVIDENCE_ROOM] = 2 * hits + row + 64, 2 * evidence + (row + 64) * EVIDENCE_MAX
        for word in at.OF_HITS:
            name, of_evidence = word.number, word.many == "EVIDENCE_ROOM"
            fresh = np.empty(words[at.EVIDENCE_ROOM if of_evidence else at.OUT_ROOM], word.dtype)
            kept = evidence if of_evidence else hits
            if kept:
                fresh[:kept] = self._arrays[name][:kept]
            self._arrays[name] = fresh
            self._memory.keep(name, fresh)

    def hits(self, first: int) -> Iterator[tuple[int, int, int, int]]:
        """Of the hits noted from number ``first`` on their number, line, row, and the end of their window in ms."""
        noted = [
            self._arrays[name][first : self._memory.words[at.N_HITS]] for name in (at.OUT_LINE, at.OUT_ROW, at.OUT_END)
        ]
        for number, each in enumerate(zip(*(array.tolist() for array in noted), strict=True), first):
            yield (number, *each)

    def part(self, name: int, count: int) -> Any:
        """A copy of the first ``count``."""
        return self._arrays[name][:count].copy()


def _evidence_values(memory: MemoryMap, columns: Columns, column: I64, records: I64) -> tuple[Any, Any]:
    """Values of evidence, each from the column of its hit's group, as integers and as floats."""
    value_i, value_f = np.zeros(len(records), np.int64), np.zeros(len(records), np.float64)
    if not len(records):
        return value_i, value_f
    for number, (_, kind) in enumerate(columns):
        mine = column == number
        if mine.any():
            out = value_f if kind == "float" else value_i
            out[mine] = memory.field(at.RECORDS, at.VALUE + 8 * number, out.dtype.type)[records[mine]]
    return value_i, value_f


def _ids_of(memory: MemoryMap, records: I64) -> tuple[Any, I64]:
    """The ids of ``records``, end to end, and their offsets."""
    if not len(records):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    id_end = memory.field(at.RECORDS, at.ID_END, np.uint32)
    ends = id_end[records].astype(np.int64)
    starts = np.where(records > 0, id_end[np.maximum(records - 1, 0)], 0).astype(np.int64)
    return take_bytes(memory.rows(at.IDS).reshape(-1), starts, ends - starts)


def hits_of(memory: MemoryMap, buffers: Buffers, columns: Columns, column_of_line: I64, found: dict[str, Any]) -> Hits:
    """The hits noted, copied, so that they outlive the next batch and compaction.

    ``columns``: of values, and ``column_of_line`` which of them each line looks at (-1: none). ``found``: duplicates,
    retained, sat of the batch.
    """
    words = memory.words
    h, e = int(words[at.N_HITS]), int(words[at.N_EVIDENCE])
    retained, emitted = int(words[at.N_RETAINED]), buffers.part(at.OUT_EMITTED, int(words[at.N_EMITTED])).view(np.int32)
    records = buffers.part(at.OUT_EVIDENCE, e).astype(np.int64)
    line, offsets = (
        buffers.part(at.OUT_LINE, h),
        np.concatenate([np.zeros(1, np.int64), buffers.part(at.OUT_EVIDENCE_END, h)]),
    )
    value_i, value_f = _evidence_values(memory, columns, np.repeat(column_of_line[line], np.diff(offsets)), records)
    id_bytes, id_offsets = _ids_of(memory, records)
    return Hits(
        line=line,
        row=buffers.part(at.OUT_ROW, h),
        is_int=buffers.part(at.OUT_IS_INT, h).astype(np.bool_),
        value_i=buffers.part(at.OUT_VALUE_I, h),
        value_up=buffers.part(at.OUT_VALUE_UP, h),
        value_f=buffers.part(at.OUT_VALUE_F, h),
        count=buffers.part(at.OUT_COUNT, h),
        window_start_ms=buffers.part(at.OUT_START, h),
        window_end_ms=buffers.part(at.OUT_END, h),
        evidence_offsets=offsets,
        evidence_id_bytes=id_bytes,
        evidence_id_offsets=id_offsets,
        evidence_clock_ms=memory.clocks(records),
        evidence_value_i=value_i,
        evidence_value_f=value_f,
        duplicates=found["duplicate"].astype(np.bool_),
        retained=found["retained"][:retained],
        sat=found["sat"][:retained],
        emitted_line=np.ascontiguousarray(emitted[0::2]),
        emitted_row=np.ascontiguousarray(emitted[1::2]),
    )
