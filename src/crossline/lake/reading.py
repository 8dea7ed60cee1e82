"""Reads the tables of a lake: rows of a span of time, of a key, as known at an instant."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from crossline.basics.errors import StateError
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.lookup.ordered_scan import OrderedScan, TimeSlice
from crossline.lake.tables.expired_snapshot import reading
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.row_filters import all_of
from crossline.lake.tables.table_layouts import (
    OUTPUTS,
    RECORDS,
    REPORTS,
    SIDE,
    WATERMARKS,
    TableLayout,
    records_layout,
    records_table,
)
from crossline.lake.watermark import Watermark, Watermarks
from crossline.settings.config import PipelineConfig

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

MS_PER_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What a table holds: rows, bytes and files of its current snapshot, and how many snapshots there are."""

    name: str
    rows: int
    files: int
    size: int
    snapshots: int


@dataclass(slots=True)
class LakeReader:
    """Reads the tables of a pipeline's lake. Nothing is written, and no table is made.

    Attributes:
        lake: The lake.
        config: Its pipeline.
        fresh_s: For how many seconds a table's metadata is used before the catalog is asked again.
    """

    lake: LakeAddress
    config: PipelineConfig
    fresh_s: float = 0.0
    _tables: dict[str, Table] = field(default_factory=dict)
    _known_s: dict[str, float] = field(default_factory=dict)

    def close(self) -> None:
        """Close the connections to the catalog."""
        self.lake.close()

    def layouts(self) -> list[TableLayout]:
        """The tables of the pipeline, those of its streams first."""
        mine = [records_layout(stream, spec) for stream, spec in self.config.streams.items()]
        return [*mine, *OUTPUTS, *SIDE, WATERMARKS]

    def tables(self) -> Iterator[LakeTable]:
        """The tables that are there, those of gaps and fills last."""
        for layout in (*self.layouts(), *REPORTS):
            table = self._find(layout.name)
            if table is not None:
                yield LakeTable(layout, table)

    def rows(
        self,
        name: str,
        where: Iterable[BooleanExpression] = (),
        columns: Sequence[str] = ("*",),
    ) -> pa.Table:
        """Rows of a table.

        Args:
            name: Its name; ``records_STREAM`` for a stream's records.
            where: Conditions that all hold; see ``row_filters``.
            columns: The columns to read.

        Raises:
            StateError: There is no such table; the writer makes it.
            LakeUnavailableError: The snapshot has expired while it was read.
        """
        scan = self._there(name).scan(row_filter=all_of(where), selected_fields=tuple(columns))
        with reading(name):
            return scan.to_arrow()

    def batches(
        self,
        name: str,
        where: Iterable[BooleanExpression] = (),
        columns: Sequence[str] = ("*",),
    ) -> Iterator[pa.RecordBatch]:
        """The same rows as ``rows``, file by file: one file's rows are in memory at once. Raises as ``rows``."""
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

        table = self._there(name)
        scan = table.scan(row_filter=all_of(where), selected_fields=tuple(columns))
        read = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter, scan.case_sensitive)
        with reading(name):
            for task in scan.plan_files():
                yield from read.to_record_batches([task])

    def columns(self, name: str) -> list[str]:
        """The columns of a table. Raises as ``rows``."""
        return [field.name for field in self._there(name).schema().fields]

    def count(self, name: str, where: Iterable[BooleanExpression] = ()) -> int:
        """How many rows of a table there are; files whose bounds tell are not read. Raises as ``rows``."""
        return self._there(name).scan(row_filter=all_of(where)).count()

    def records(
        self, stream: str, where: Iterable[BooleanExpression] = (), columns: Sequence[str] = ("*",)
    ) -> pa.Table:
        """Rows of a stream's records; see ``rows``."""
        return self.rows(records_table(stream), where, columns)

    def status(self) -> list[TableStatus]:
        """What the tables hold."""
        return [_status(table) for table in self.tables()]

    def watermark(self) -> Watermark | None:
        """Up to which batch all tables are whole; None: nothing was written yet."""
        table = self._find(WATERMARKS.name)
        return None if table is None else Watermarks(LakeTable(WATERMARKS, table)).newest()

    def known_ms(self) -> int | None:
        """When the last batch was delivered that all tables have, in epoch milliseconds; None: none was written yet."""
        mark = self.watermark()
        return None if mark is None else mark.delivered_ms

    def has(self, name: str) -> bool:
        """Whether there is such a table."""
        return self._find(name) is not None

    def whole_to(self, checkpoint: str) -> int:
        """The last batch of ``checkpoint`` that all tables have; -1: none."""
        if not self.has(WATERMARKS.name):
            return -1
        return LakeTable(WATERMARKS, self._there(WATERMARKS.name)).last_batch(checkpoint)

    def whole_at(self, checkpoint: str) -> Watermark | None:
        """The last watermark of ``checkpoint``; None: there is none."""
        if self.whole_to(checkpoint) < 0:
            return None
        return Watermarks(LakeTable(WATERMARKS, self._there(WATERMARKS.name))).last(checkpoint)

    def in_order(self, names: Iterable[str], where: Iterable[BooleanExpression] = ()) -> OrderedScan:
        """The rows of the tables among ``names`` that are there, slice by slice in order of time."""
        layouts = {each.name: each for each in self.layouts()}
        return OrderedScan([LakeTable(layouts[name], self._there(name)) for name in names if self.has(name)], where)

    def days_around(
        self, name: str, where: Iterable[BooleanExpression], columns: Sequence[str], around_ms: int
    ) -> Iterator[pa.Table]:
        """Rows of a table, a table for each day: first of the day of ``around_ms``, then of those before and after it.

        Args:
            name: The table.
            where: Conditions that all hold.
            columns: The columns to read.
            around_ms: Epoch milliseconds.
        """
        scan = self.in_order([name], where)
        middle = around_ms // MS_PER_DAY
        for day in sorted((each for each in scan.days() if each is not None), key=lambda each: abs(each - middle)):
            yield from scan.rows(TimeSlice(day), columns)

    def _there(self, name: str) -> Table:
        table = self._find(name)
        if table is None:
            raise StateError(f"the lake has no table {name}; `crossline lake write` makes it")
        now_s = time.monotonic()
        if now_s >= self._known_s.get(name, 0.0) + self.fresh_s:
            table.refresh()
            self._known_s[name] = now_s
        return table

    def _find(self, name: str) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - an extra

        if name not in self._tables:
            try:
                self._known_s[name] = time.monotonic()
                self._tables[name] = self.lake.catalog.load_table((self.lake.namespace, name))
            except NoSuchTableError:
                return None
        return self._tables[name]


def _status(table: LakeTable) -> TableStatus:
    table.table.refresh()
    snapshot = table.table.current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    rows, files, size = (
        int(summary.get(name, 0)) for name in ("total-records", "total-data-files", "total-files-size")
    )
    return TableStatus(table.layout.name, rows, files, size, len(table.table.metadata.snapshots))


def is_records(name: str) -> bool:
    """Whether a table has the records of a stream."""
    return name.startswith(f"{RECORDS}_")
