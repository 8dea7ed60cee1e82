"""The records of a lake as the input of a backtest: every log in its order, all logs up to the same instants."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import Decoded
from crossline.ingest.route.partitioner import Chunk
from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay_cuts import OVERFULL, SlicePart, parts_of
from crossline.lake.replays.slice_files import (
    SliceFiles,
    SliceReader,
    bounds_ms,
    columns_of,
    conditions,
    slice_reference,
)
from crossline.lake.tables.expired_snapshot import reading
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.record_rows import in_log_order, marked_runs, records_of_rows
from crossline.lake.tables.row_filters import all_of, between
from crossline.lake.tables.table_layouts import REACHED, SEQUENCE, records_layout
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.intake import DecodedRows, StreamIntake
from crossline.runtime.sources.slices import Slices
from crossline.runtime.work.task import Task

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask

    from crossline.backtest.input_batches import BacktestInputs

_File = tuple["FileScanTask", tuple[int, int] | None]  # with the bounds that its statistics tell
SLICE_ROWS = 400_000  # of a batch, as far as the bounds of files tell
ROW_BYTES = 128  # of a row, as far as the size of batches is concerned


@dataclass(frozen=True, slots=True)
class LakeIntake:
    """Decodes rows of a stream's table: each batch holds rows of one chunk, or of one partition of a topic."""

    stream: str

    def decode(self, snapshot: PlanSnapshot, batch: pa.RecordBatch, task: Task, number: int) -> DecodedRows:  # noqa: ARG002 - the protocol's
        """The records of the rows, in the order of their log."""
        records = records_of_rows(self.stream, snapshot.streams[self.stream], pa.Table.from_batches([batch]))
        sequence = batch.column(SEQUENCE)[0].as_py()
        if sequence is None:
            chunk = Chunk(records.partition, int(records.offsets[0]), records.partition)
        else:
            chunk = Chunk(self.stream, sequence, records.partition)
        yield Decoded(records, []), chunk


@dataclass(frozen=True, slots=True)
class LakeInput:
    """The records of a lake whose logs had reached an instant from ``from_ms`` up to ``to_ms`` (exclusive).

    Attributes:
        reader: The lake.
        streams: The streams, with the fields of tables.
        inputs: By stream whose records are read, nothing.
        from_ms: Epoch milliseconds of the ingest clock; None: from the first record.
        to_ms: Likewise; None: to the last record.
        known_ms: Only records that were delivered by then; None: all.
        slice_rows: About how many records a batch has.
        where: By stream, further conditions on its records; see ``row_filters``.
    """

    reader: LakeReader
    streams: Mapping[str, StreamSpec]
    inputs: Mapping[str, Sequence[str]]
    from_ms: int | None = None
    to_ms: int | None = None
    known_ms: int | None = None
    slice_rows: int = SLICE_ROWS
    where: Mapping[str, Sequence[BooleanExpression]] = field(default_factory=dict)

    def open(self, folder: Path, count: int, batch_bytes: int) -> BacktestInputs:  # noqa: ARG002 - the protocol's
        """The batches, of about ``batch_bytes`` each, and of ``slice_rows`` at most."""
        return LakeBatches(self._cut_for(batch_bytes))

    def edges(self) -> list[int]:
        """The instants between batches, in milliseconds, the first and the last included; from the bounds of files."""
        return _edges(self, {stream: _files(table, self._within()) for stream, table in self._tables().items()})

    def slices(self, batch_bytes: int) -> Slices:
        """The same batches as references, which tasks anywhere read; see ``SliceReader``.

        Files are planned once: a commit or a compaction meanwhile changes nothing.
        """
        files = {stream: _files(table, self._within()) for stream, table in self._tables().items()}
        readers = {
            stream: SliceFiles.of(table, self.where.get(stream, ()), self.known_ms)
            for stream, table in self._tables().items()
        }
        given = self._cut_for(batch_bytes)
        references = []
        for start, end in itertools.pairwise(_edges(given, files)):
            mine = {
                stream: [each for each, bounds in found if _meets(bounds, start, end)]
                for stream, found in files.items()
            }
            rows = sum(each.file.record_count for found in mine.values() for each in found)
            for part in given.parts(start, end, rows) if rows else ():
                where = {stream: part.where(stream) for stream in mine}
                references.append(
                    slice_reference({s: (each, mine[s]) for s, each in where.items() if each is not None})
                )
        count = sum(each.file.record_count for found in files.values() for each, _ in found)
        return Slices(references, SliceReader(readers), _intake(self.inputs), count)

    def _cut_for(self, batch_bytes: int) -> LakeInput:
        return replace(self, slice_rows=min(self.slice_rows, max(1, batch_bytes // ROW_BYTES)))

    def parts(self, start_ms: int, end_ms: int, rows_max: int | None = None) -> list[SlicePart]:
        """The parts of a slice in order: itself, or several if it has far more than ``slice_rows`` rows.

        Args:
            start_ms: Epoch milliseconds that the log had reached.
            end_ms: Likewise, exclusive.
            rows_max: How many rows the slice has at most; None: as the files tell.
        """
        if rows_max is None:
            within = (start_ms, end_ms - 1)
            rows_max = sum(_rows_most(_files(table, within), start_ms, end_ms) for table in self._tables().values())
        if rows_max <= OVERFULL * self.slice_rows:
            return [SlicePart(start_ms, end_ms)]
        return parts_of(list(self.inputs), self._columns, start_ms, end_ms, self.slice_rows)

    def rows(self, stream: str, part: SlicePart) -> pa.Table | None:
        """The rows of a part in the order of their logs; None: there are none, or the table is missing."""
        table, where = self._table(stream), part.where(stream)
        if table is None or where is None:
            return None
        with reading(table.layout.name):
            rows = table.table.scan(row_filter=self._given(stream, where), selected_fields=tuple(columns_of(table)))
            return in_log_order(rows.to_arrow())

    def _columns(self, stream: str, start_ms: int, end_ms: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = self._table(stream)
        if table is None:
            return
        where = self._given(stream, between(REACHED, start_ms, end_ms - 1))
        scan = table.table.scan(row_filter=where, selected_fields=tuple(names))
        with reading(table.layout.name):
            for batch in scan.to_arrow_batch_reader():
                yield batch.select(list(names))

    def _given(self, stream: str, where: BooleanExpression) -> BooleanExpression:
        """``where``, and the conditions on all rows."""
        return all_of([where, *conditions(self.where.get(stream, ()), self.known_ms)])

    def _within(self) -> tuple[int | None, int | None]:
        return self.from_ms, None if self.to_ms is None else self.to_ms - 1

    def _tables(self) -> dict[str, LakeTable]:
        """By stream the tables that are there."""
        found = ((stream, self._table(stream)) for stream in self.inputs)
        return {stream: table for stream, table in found if table is not None}

    def _table(self, stream: str) -> LakeTable | None:
        layout = records_layout(stream, self.streams[stream])
        return next((each for each in self.reader.tables() if each.layout.name == layout.name), None)


@dataclass(slots=True)
class LakeBatches:
    """The batches of a ``LakeInput``, as a backtest takes them.

    Attributes:
        given: The records.
        edges: The instants between slices.
        at: The slice that comes next.
        part: The part of it that comes next.
    """

    given: LakeInput
    edges: list[int] = field(default_factory=list)
    at: int = 0
    part: int = 0

    def pin(self) -> dict[str, Any]:
        """The instants between slices, how many rows a part of one has, and by when the records were delivered."""
        return {"edges": self.given.edges(), "known_ms": self.given.known_ms, "slice_rows": self.given.slice_rows}

    def pinned(self, cuts: Mapping[str, Any], place: Sequence[int]) -> LakeBatches:
        """The same batches, from a place on: the number of the slice, and of the part in it."""
        slice_rows = cuts.get("slice_rows", self.given.slice_rows)
        given = replace(self.given, known_ms=cuts["known_ms"], slice_rows=slice_rows)
        at, part = (*place, 0)[:2] if place else (0, 0)
        return LakeBatches(given, list(cuts["edges"]), at, part)

    def place(self) -> list[int]:
        """The numbers of the slice and of the part that come next."""
        return [self.at, self.part]

    @property
    def intake(self) -> StreamIntake:
        """Decodes the rows of each stream."""
        return _intake(self.given.inputs)

    @property
    def anywhere(self) -> bool:
        """No: records are numbered by the process that reads them."""
        return False

    def aligned(self, snapshot: PlanSnapshot) -> PlanSnapshot:
        """``snapshot`` itself: all logs are read to the same instants."""
        return snapshot

    def batches(self, count: int) -> Iterator[list[list[pa.RecordBatch]]]:
        """The rows that each of ``count`` processes decodes, batch by batch; slices without rows are left out."""
        self.edges = self.edges or self.given.edges()
        for start, end in itertools.islice(itertools.pairwise(self.edges), self.at, None):
            for part in self.given.parts(start, end)[self.part :]:
                self.part += 1
                dealt: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
                for stream in self.given.inputs:
                    rows = self.given.rows(stream, part)
                    if rows is not None:
                        _deal(stream, rows, dealt)
                if any(dealt):
                    yield dealt
            self.at, self.part = self.at + 1, 0

    def share(self, batch: int) -> float:  # noqa: ARG002 - the protocol's
        """The share of the input that is done, 0 to 1, as far as it is known."""
        return min(1.0, self.at / max(1, len(self.edges) - 1))


def _intake(streams: Iterable[str]) -> StreamIntake:
    return StreamIntake({stream: LakeIntake(stream) for stream in streams})


def _deal(stream: str, rows: pa.Table, dealt: list[list[pa.RecordBatch]]) -> None:
    """Deal runs of rows, each of one log and chunk, to the processes, each to the one with the fewest rows."""
    counts = [0] * len(dealt)
    for batch in marked_runs(stream, rows):
        at = counts.index(min(counts))
        counts[at] += len(batch)
        dealt[at].append(batch)


def _rows_most(files: Iterable[_File], start_ms: int, end_ms: int) -> int:
    """How many rows a slice has at most: all of the files that reach into it."""
    return sum(each.file.record_count for each, bounds in files if _meets(bounds, start_ms, end_ms))


def _files(table: LakeTable, within: tuple[int | None, int | None]) -> list[_File]:
    """The files whose bounds meet ``within``, with the first and the last instant (ms) of each, where it tells them."""
    table.table.refresh()
    found = table.table.scan(row_filter=between(REACHED, *within)).plan_files()
    return [(each, bounds_ms(table, each)) for each in found]


def _meets(bounds: tuple[int, int] | None, start_ms: int, end_ms: int) -> bool:
    """Whether a file may have rows from ``start_ms`` up to ``end_ms`` (exclusive)."""
    return bounds is None or (bounds[0] < end_ms and bounds[1] >= start_ms)


def _edges(given: LakeInput, files: Mapping[str, Sequence[_File]]) -> list[int]:
    every = [each for found in files.values() for each in found]
    spans = [(*bounds, each.file.record_count) for each, bounds in every if bounds is not None]
    if not spans:
        return []
    first = min(low for low, _, _ in spans) if given.from_ms is None else given.from_ms
    end = max(high for _, high, _ in spans) + 1 if given.to_ms is None else given.to_ms
    return _cut(spans, first, end, given.slice_rows)


def _cut(spans: Sequence[tuple[int, int, int]], first: int, end: int, slice_rows: int) -> list[int]:
    """Instants from ``first`` to ``end``, with about ``slice_rows`` rows between two, if rows are spread evenly."""
    points = sorted({first, end, *(low for low, _, _ in spans), *(high + 1 for _, high, _ in spans)})
    points = [each for each in points if first <= each <= end]
    edges, rows = [first], 0.0
    for start, stop in itertools.pairwise(points):
        share = sum(
            count * (min(stop, high + 1) - max(start, low)) / (high + 1 - low)
            for low, high, count in spans
            if low < stop and high >= start
        )
        pieces = min(stop - start, max(1, int((rows + share) // slice_rows)))
        if rows + share < slice_rows:
            rows += share
            continue
        step = (stop - start) / pieces
        edges += [start + round(step * number) for number in range(1, pieces)]
        edges.append(stop)
        rows = 0.0
    if edges[-1] != end:
        edges.append(end)
    return edges
