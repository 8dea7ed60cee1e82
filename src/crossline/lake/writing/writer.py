"""The lake writer: follows the committed batches of a pipeline, and appends their content to the tables once.

A slice is a run of batches. For each table the writer appends the rows of the slice; then it appends a watermark, and
deletes the spool files of the slice. After a failure at any point the next attempt makes the same rows of the same
batches, and each table takes those that it does not have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64
from crossline.io.outbox.batch_spool import CHUNKS, BatchSpool, SpooledBatch
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.tables.delivery_rows import delivery_rows, rows_table
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.record_rows import US_PER_MS, RecordOrigin, record_rows
from crossline.lake.tables.table_layouts import (
    BATCH,
    CHECKPOINT,
    DELIVERED,
    MISSING,
    OUTPUTS,
    SIDE,
    TableLayout,
    records_layout,
)
from crossline.lake.watermark import Watermark, Watermarks
from crossline.lake.writing.log_clocks import LogClocks
from crossline.lake.writing.side_logs import decision_folder, side_logs, write_log
from crossline.lake.writing.source_reader import Gap, SourceReader
from crossline.logs import get_logger
from crossline.runtime.snapshot.spark_log import committed

RECORD_BYTES = 512  # of a record of a topic, as far as slices are concerned
DUPLICATE = "duplicate_id"

log = get_logger(__name__)


def pending_batches(spool: BatchSpool, folder: Path) -> list[int]:
    """The numbers of the committed batches that the spool has, of the checkpoint in ``folder``."""
    numbers = spool.numbers()
    if numbers and not committed(str(folder), numbers[-1]):
        numbers.pop()  # those before it are committed: a batch is delivered after them
    return numbers


@dataclass(frozen=True, slots=True)
class Written:
    """What one slice added: batches ``first`` to ``last``, the rows by table, how long each table's commit took."""

    first: int
    last: int
    rows: dict[str, int]
    commit_ms: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class LakeWriter:
    """Writes the batches of one pipeline.

    Attributes:
        lake: Where the tables are.
        spool: What batches gave.
        reader: Reads their records.
        slice_bytes: Most bytes of records in a slice; one batch may have more.
        before_step: Called with the name of each step before it is taken; tests fail there.
    """

    lake: LakeAddress
    spool: BatchSpool
    reader: SourceReader
    slice_bytes: int
    before_step: Callable[[str], None] = lambda _: None
    _tables: dict[str, LakeTable] = field(default_factory=dict)
    _watermarks: Watermarks | None = None

    def pending(self) -> list[int]:
        """The numbers of the committed batches that the spool has."""
        return pending_batches(self.spool, self.reader.folder)

    def write_next(self, upto: int | None = None) -> Written | None:
        """Write the next slice; None: there is no committed batch that the lake does not have.

        Args:
            upto: Batches with a higher number wait; None: none waits.

        Raises:
            LakeUnavailableError: A source, the catalog or the files do not answer; call again.
            StateError: The spool is damaged, or a stream declares another type for a column.
        """
        batches = self._slice([number for number in self.pending() if upto is None or number <= upto])
        if not batches:
            return None
        checkpoint = batches[0].delivery.checkpoint
        marks = self._marks()
        mark = marks.last(checkpoint)
        fresh = [batch for batch in batches if batch.number > mark.batch]
        rows: dict[str, int] = {}
        if fresh:
            for first, last in _holes([mark.batch, *(batch.number for batch in fresh)]):
                lost = {"first": first, "last": last}
                log.error("batches are missing in the spool; the lake does not get what they gave", **lost)
            rows = self._append(fresh, mark)
        self.before_step("delete")
        for batch in batches:
            self.spool.delete(batch.number)
        took = {name: self._tables[name].commit_ms for name, count in rows.items() if count}
        return Written(batches[0].number, batches[-1].number, rows, took)

    def write_side_logs(self) -> dict[str, int]:
        """Append what logs beside the batches have that the tables have not: rows by log. Raises as ``write_next``."""
        return {log.name: count for log in side_logs(self.reader.config) if (count := write_log(self.lake, log))}

    def _append(self, batches: Sequence[SpooledBatch], mark: Watermark) -> dict[str, int]:
        checkpoint, last = batches[0].delivery.checkpoint, batches[-1].number
        clocks = LogClocks(dict(mark.clocks))
        in_batches = decision_folder(self.reader.config) is None  # else files have them, on all records
        known = len(self.reader.gaps)
        rows = {**self._records(batches, clocks), **delivery_rows(batches, decisions=in_batches)}
        rows |= _missing_rows(self.reader.gaps[known:], batches[-1])
        added: dict[str, int] = {}
        for layout, table in rows.items():
            self.before_step(layout.name)
            added[layout.name] = self._table(layout).append(table, checkpoint, last)
        self.before_step("watermark")
        snapshots = {name: each for name, table in self._tables.items() if (each := table.snapshot()) is not None}
        self._marks().append(Watermark(checkpoint, last, batches[-1].delivered_ms, clocks.reached_ms, snapshots))
        return added

    def _slice(self, numbers: Sequence[int]) -> list[SpooledBatch]:
        """The first batches of ``numbers``, of one checkpoint, whose records are within ``slice_bytes``."""
        found: list[SpooledBatch] = []
        left = self.slice_bytes
        for number in numbers:
            try:
                batch = self.spool.get(number)
            except FileNotFoundError:  # another writer has written the batch
                continue
            left -= self._weight(batch)
            if found and (left < 0 or batch.delivery.checkpoint != found[0].delivery.checkpoint):
                break
            found.append(batch)
        return found

    def _weight(self, batch: SpooledBatch) -> int:
        return sum(
            self.reader.chunk_bytes(stream, *span) if name == CHUNKS else (span[1] - span[0]) * RECORD_BYTES
            for stream, logs in batch.ranges.items()
            for name, span in logs.items()
        )

    def _records(self, batches: Sequence[SpooledBatch], clocks: LogClocks) -> dict[TableLayout, pa.Table]:
        """The rows of each stream's table, their ingest times made by ``clocks``."""
        dead = _dead_positions(batches)
        found: dict[TableLayout, pa.Table] = {}
        for stream, spec in self.reader.config.streams.items():
            layout = records_layout(stream, spec)
            runs = _Runs.of(stream, batches)
            ranges = runs.ranges()
            parts: list[pa.Table] = []
            if not ranges:
                continue
            for records, chunk in self.reader.read(stream, ranges, max(b.delivery.began_ms for b in batches)):
                at = runs.batch_at(CHUNKS if chunk is not None else records.partition, records.offsets, chunk)
                letters = dead.get((stream, records.partition), {})
                reasons = [letters.get(each) for each in records.offsets.tolist()] if letters else []
                kept = np.array([each in {None, DUPLICATE} for each in reasons], np.bool_) if reasons else None
                ingest_ms, reached_ms = clocks.of(records, stream if chunk is not None else records.partition, kept)
                duplicate = np.array([each == DUPLICATE for each in reasons] or [False] * len(records))
                origin = RecordOrigin(
                    checkpoint=batches[0].delivery.checkpoint,
                    sequence=chunk,
                    ingest_ms=ingest_ms,
                    reached_ms=reached_ms,
                    batch=runs.numbers[at],
                    delivered_ms=runs.delivered_ms[at],
                    duplicate=duplicate,
                )
                rows = record_rows(layout, spec, records, origin)
                parts.append(rows if kept is None else rows.filter(pa.array(kept)))
            if parts:
                found[layout] = pa.concat_tables(parts)
        return found

    def _table(self, layout: TableLayout) -> LakeTable:
        known = self._tables.get(layout.name)
        if known is None or known.layout.schema != layout.schema:
            known = self._tables[layout.name] = LakeTable.ensure(self.lake, layout)
        return known

    def _marks(self) -> Watermarks:
        if self._watermarks is None:
            self._watermarks = Watermarks.of(self.lake)
        return self._watermarks

    def make_tables(self) -> None:
        """Make all tables, so that readers find them before the first commit."""
        for stream, spec in self.reader.config.streams.items():
            self._table(records_layout(stream, spec))
        for layout in (*OUTPUTS, *SIDE):
            self._table(layout)
        self._marks()


def _holes(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of numbers, first to last, that an ascending sequence skips."""
    for before, after in pairwise(numbers):
        if after > before + 1:
            yield before + 1, after - 1


@dataclass(frozen=True, slots=True)
class _Runs:
    """Which batch each position of a stream's logs is of: of batch i those before ``ends[log][i]``."""

    numbers: I64
    delivered_ms: I64
    starts: dict[str, int]
    ends: dict[str, I64]

    @staticmethod
    def of(stream: str, batches: Sequence[SpooledBatch]) -> _Runs:
        starts: dict[str, int] = {}
        ends: dict[str, list[int]] = {}
        for number, batch in enumerate(batches):
            for name, (start, end) in batch.ranges.get(stream, {}).items():
                starts.setdefault(name, start)
                known = ends.setdefault(name, [start] * number)
                known += [known[-1] if known else start] * (number - len(known))
                known.append(end)
        whole = {
            name: np.array(known + [known[-1]] * (len(batches) - len(known)), np.int64) for name, known in ends.items()
        }
        numbers = np.array([batch.number for batch in batches], np.int64)
        return _Runs(numbers, np.array([batch.delivered_ms for batch in batches], np.int64), starts, whole)

    def ranges(self) -> dict[str, tuple[int, int]]:
        return {name: (start, int(self.ends[name][-1])) for name, start in self.starts.items()}

    def batch_at(self, name: str, offsets: I64, chunk: int | None) -> I64:
        """The index of the batch of each record; those of a chunk are of one batch."""
        if chunk is None:
            return np.searchsorted(self.ends[name], offsets, side="right")
        return np.full(len(offsets), np.searchsorted(self.ends[name], chunk, side="right"), np.int64)


def _missing_rows(gaps: Sequence[Gap], last: SpooledBatch) -> dict[TableLayout, pa.Table]:
    """What sources had deleted; nothing where they had all."""
    common = {BATCH: last.number, CHECKPOINT: last.delivery.checkpoint, DELIVERED: last.delivered_ms * US_PER_MS}
    noted_us = time.time_ns() // 1_000
    rows = [
        {"stream": gap.stream, "log": gap.log, "first": gap.start, "end": gap.end, "noted_at": noted_us, **common}
        for gap in gaps
    ]
    return {MISSING: rows_table(MISSING, rows)} if rows else {}


def _dead_positions(batches: Sequence[SpooledBatch]) -> dict[tuple[str, str], dict[int, str]]:
    """By stream and log, the positions of dead letters and their reasons."""
    found: dict[tuple[str, str], dict[int, str]] = {}
    for batch in batches:
        for letter in batch.delivery.dead:
            found.setdefault((letter.stream, letter.partition), {})[letter.offset] = letter.reason
    return found
