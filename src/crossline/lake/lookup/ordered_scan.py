"""Reads rows of tables in order of time, a slice at a time, in memory for one slice.

Each file is sorted by time, and its row groups have bounds. A slice is a span of time whose row groups have about
``SLICE_ROWS`` rows; slices of several tables have the same bounds. Rows of one instant are always in one slice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from crossline.lake.tables.expired_snapshot import reading
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.row_filters import all_of, before, between

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask

SLICE_ROWS = 262_144


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """A span of a day.

    Attributes:
        day: Days since the epoch; None: rows without a time.
        start_ms: The first instant, epoch milliseconds; None: from the start of the day.
        end_ms: The first instant behind the span; None: to the end of the day.
    """

    day: int | None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(slots=True)
class _Planned:
    """A table, and its files by day."""

    table: LakeTable
    where: BooleanExpression
    days: dict[int | None, list[FileScanTask]]


@dataclass(slots=True)
class OrderedScan:
    """The rows of tables that match, in slices.

    Attributes:
        tables: The tables, each partitioned by the day of its time.
        where: Conditions that hold for the rows of all of them.
        slice_rows: About how many rows a slice has.
    """

    tables: Sequence[LakeTable]
    where: Iterable[BooleanExpression] = ()
    slice_rows: int = SLICE_ROWS
    _planned: list[_Planned] = field(default_factory=list)

    def __post_init__(self) -> None:
        where = all_of(self.where)
        for table in self.tables:
            days: dict[int | None, list[FileScanTask]] = {}
            for task in table.table.scan(row_filter=where).plan_files():
                days.setdefault(task.file.partition[0], []).append(task)
            self._planned.append(_Planned(table, where, days))

    def days(self) -> list[int | None]:
        """The days that have files, in their order; None, first: rows without a time."""
        found = {day for each in self._planned for day in each.days}
        return sorted(found, key=lambda day: -(2**62) if day is None else day)

    def slices(self, *, newest_first: bool = False) -> Iterator[TimeSlice]:
        """The spans, in their order, or the latest first."""
        days = self.days()
        for day in reversed(days) if newest_first else days:
            found = self._of_day(day)
            yield from reversed(found) if newest_first else found

    def rows(self, part: TimeSlice, columns: Sequence[str]) -> list[pa.Table]:
        """The rows of a slice, by table, each sorted by time; rows of equal time keep their order in files.

        Args:
            part: The slice.
            columns: The columns to read.
        """
        return [_read(each, part, columns) for each in self._planned]

    def _of_day(self, day: int | None) -> list[TimeSlice]:
        if day is None:
            return [TimeSlice(None)]
        groups = [group for each in self._planned for task in each.days.get(day, ()) for group in _groups(each, task)]
        cuts = _cuts(groups, self.slice_rows)
        bounds = [None, *cuts, None]
        return [TimeSlice(day, start, end) for start, end in itertools.pairwise(bounds)]


def _read(planned: _Planned, part: TimeSlice, columns: Sequence[str]) -> pa.Table:
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

    own, time_column = planned.table.table, planned.table.layout.time
    within = [planned.where]
    if part.start_ms is not None:
        within.append(between(time_column, part.start_ms, None))
    if part.end_ms is not None:
        within.append(before(time_column, part.end_ms))
    names = dict.fromkeys([*columns, time_column])
    schema = own.schema() if "*" in names else own.schema().select(*names)
    scan = ArrowScan(own.metadata, own.io, schema, all_of(within))
    with reading(planned.table.layout.name):
        rows = scan.to_table(planned.days.get(part.day, []))
    return rows.sort_by([(time_column, "ascending")])


def _groups(planned: _Planned, task: FileScanTask) -> Iterator[tuple[int, int]]:
    """Of each row group of a file its first instant (ms) and how many rows it has."""
    with reading(planned.table.layout.name), planned.table.table.io.new_input(task.file.file_path).open() as source:
        found = pq.ParquetFile(source).metadata
        at = next(
            (n for n in range(found.num_columns) if found.schema.column(n).path == planned.table.layout.time), None
        )
        for number in range(found.num_row_groups):
            group = found.row_group(number)
            statistics = None if at is None else group.column(at).statistics
            if statistics is not None and statistics.has_min_max:
                yield int(statistics.min.timestamp() * 1_000 // 1), group.num_rows


def _cuts(groups: Iterable[tuple[int, int]], slice_rows: int) -> list[int]:
    """The instants between slices: the starts of row groups, with about ``slice_rows`` rows between two.

    >>> _cuts([(0, 10), (5, 10), (20, 10), (20, 10), (30, 10)], 20)
    [20, 30]
    """
    cuts: list[int] = []
    rows = 0
    last: int | None = None
    for start_ms, count in sorted(groups):
        if rows >= slice_rows and start_ms != last:
            cuts.append(start_ms)
            rows = 0
        rows += count
        last = start_ms
    return cuts
