"""Cuts a slice of a replay further, where it has more rows than the bounds of files let expect.

A record with an ingest time far ahead makes all later records of its log share that instant as the highest that the log
had reached. Slices are cut between instants first. The rows of one instant are cut in the order in which they are
judged: log after log, and within a log by position. So a replay has the same order with any size of slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.values import I64
from crossline.lake.tables.row_filters import all_of, any_of, at_least, below, between, equal, is_null
from crossline.lake.tables.table_layouts import LOG, POSITION, REACHED, SEQUENCE

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

BINS = 1 << 16  # spans of time that are counted at once
OVERFULL = 2  # how many times the wanted rows a slice may have
RUNS_MAX = 64  # of a part: each is a condition of its scan
_US = 1_000
_COUNT = "#"

# The given columns of a stream's rows within [start_ms, end_ms), batch by batch.
Columns = Callable[[str, int, int, Sequence[str]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class SlicePart:
    """Rows whose logs had reached an instant from ``start_ms`` up to ``end_ms`` (exclusive), in milliseconds.

    ``pieces``: by stream, the runs of the logs that count; None: all rows of all streams.
    """

    start_ms: int
    end_ms: int
    pieces: tuple[str, tuple[Piece, ...]] | None = None

    def where(self, stream: str) -> BooleanExpression | None:
        """The condition on the rows of ``stream``; None: none of them count."""
        within = between(REACHED, self.start_ms, self.end_ms - 1)
        if self.pieces is None:
            return within
        of, pieces = self.pieces
        return all_of([within, any_of(piece.where() for piece in pieces)]) if of == stream else None


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """A run of one log: ``first`` to ``end`` (exclusive) of its positions.

    ``engine_log`` orders logs: that of files is the stream, where files are ordered by ``sequence``.
    """

    engine_log: str
    sequence: int  # of a file; -1 for a topic
    log: str
    first: int
    end: int
    rows: int = field(compare=False)

    def where(self) -> BooleanExpression:
        """The condition on its rows."""
        chunk = is_null(SEQUENCE) if self.sequence < 0 else equal(SEQUENCE, self.sequence)
        return all_of([equal(LOG, self.log), chunk, at_least(POSITION, self.first), below(POSITION, self.end)])


def parts_of(streams: Sequence[str], columns: Columns, start_ms: int, end_ms: int, rows_max: int) -> list[SlicePart]:
    """The parts of a slice, in order; each has at most ``OVERFULL`` times ``rows_max`` rows.

    Rows of one instant that are of several streams stay together: rules differ in which stream comes first.

    Args:
        streams: The streams.
        columns: Reads columns of their rows.
        start_ms: The first instant, in epoch milliseconds.
        end_ms: The one behind the last.
        rows_max: How many rows a part has, about.
    """
    return list(_parts(streams, columns, start_ms, end_ms, rows_max))


def _parts(streams: Sequence[str], columns: Columns, start_ms: int, end_ms: int, rows_max: int) -> Iterator[SlicePart]:
    width_ms = max(1, -(-(end_ms - start_ms) // BINS))
    counts = np.zeros((len(streams), -(-(end_ms - start_ms) // width_ms)), np.int64)
    for number, stream in enumerate(streams):
        for batch in columns(stream, start_ms, end_ms, [REACHED]):
            at = (_numbers(batch.column(0)) // _US - start_ms) // width_ms
            counts[number] += np.bincount(at, minlength=counts.shape[1])
    total = counts.sum(axis=0)
    if total.sum() <= OVERFULL * rows_max:
        yield SlicePart(start_ms, end_ms)
        return
    for first, end in _runs(total, rows_max):
        within = (start_ms + first * width_ms, min(end_ms, start_ms + end * width_ms))
        if total[first:end].sum() <= OVERFULL * rows_max:
            yield SlicePart(*within)
        elif within[1] - within[0] > 1:
            yield from _parts(streams, columns, *within, rows_max)
        elif np.count_nonzero(counts[:, first]) > 1:
            yield SlicePart(*within)
        else:
            stream = streams[int(np.argmax(counts[:, first]))]
            yield from _of_instant(stream, columns, within[0], rows_max)


def _runs(counts: I64, rows_max: int) -> Iterator[tuple[int, int]]:
    """Runs of bins, as [first, end), with at most ``rows_max`` rows each, or of one bin; rows are in all of them."""
    filled = np.flatnonzero(counts).tolist()
    first, rows = 0, 0
    for at in filled:
        if rows and rows + int(counts[at]) > rows_max:
            yield first, at
            first, rows = at, 0
        rows += int(counts[at])
        if rows > rows_max:  # a bin by itself: those without rows before it do no harm, those after it do
            yield at, at + 1
            first, rows = at + 1, 0
    if rows:
        yield first, filled[-1] + 1


def _of_instant(stream: str, columns: Columns, at_ms: int, rows_max: int) -> Iterator[SlicePart]:
    """The rows of one instant, log after log."""
    bins: pa.Table | None = None
    for batch in columns(stream, at_ms, at_ms + 1, [SEQUENCE, LOG, POSITION]):
        found = _binned(batch, rows_max)
        bins = found if bins is None else _summed(pa.concat_tables([bins, found]))
    if bins is None:
        return
    pieces = sorted(
        Piece(
            engine_log=row[LOG] if row[SEQUENCE] is None else stream,
            sequence=-1 if row[SEQUENCE] is None else row[SEQUENCE],
            log=row[LOG],
            first=row[POSITION] * rows_max,
            end=(row[POSITION] + 1) * rows_max,
            rows=row[_COUNT],
        )
        for row in bins.to_pylist()
    )
    group: list[Piece] = []
    rows = 0
    for piece in pieces:  # positions of a log are unique, so a piece has at most ``rows_max`` rows
        if group and (rows + piece.rows > rows_max or len(group) == RUNS_MAX):
            yield SlicePart(at_ms, at_ms + 1, (stream, tuple(group)))
            group, rows = [], 0
        last = group[-1] if group else None
        if last is not None and (last.sequence, last.log) == (piece.sequence, piece.log):
            group[-1] = replace(last, end=piece.end, rows=last.rows + piece.rows)
        else:
            group.append(piece)
        rows += piece.rows
    yield SlicePart(at_ms, at_ms + 1, (stream, tuple(group)))


def _binned(batch: pa.RecordBatch, width: int) -> pa.Table:
    bins = pa.array(_numbers(batch.column(POSITION)) // width)
    log = batch.column(LOG)
    plain = log.cast(pa.string())
    names = [SEQUENCE, LOG, POSITION, _COUNT]
    columns = [batch.column(SEQUENCE), plain, bins, pa.repeat(1, len(batch))]
    return _summed(pa.table(columns, names=names))


def _summed(bins: pa.Table) -> pa.Table:
    names = [SEQUENCE, LOG, POSITION]
    return bins.group_by(names).aggregate([(_COUNT, "sum")]).rename_columns([*names, _COUNT])


def _numbers(column: pa.Array) -> I64:
    found: I64 = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    return found
