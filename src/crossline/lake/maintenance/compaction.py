"""Merges small data files of a day into larger ones, sorted by time.

A commit that meets another one is given up: the files that it wrote are deleted, and the next run merges again. So
compaction never makes a writer wait; a writer that meets a compaction appends again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crossline.lake.tables.data_files import RowWriter, bound_us, delete_files, sorted_rows, times_us
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import TableLayout
from crossline.logs import get_logger

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

TARGET_BYTES = 128 << 20
DAY_MS = 86_400_000
CLOSED_AFTER_MS = 2 * 3_600_000  # after its end: most late records have come by then
LAST_US = 2**63 - 1
OPEN_FILES_MAX = 32  # of a day that is not closed: a query opens each of them

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many files became how many."""

    before: int = 0
    after: int = 0


def compact(table: LakeTable, now_ms: int, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Merge the small files of each day, in the order of their times.

    Args:
        table: The table.
        now_ms: Epoch milliseconds. The files of a day that is not closed are merged once they fill a file, or are more
            than ``OPEN_FILES_MAX``.
        target_bytes: The size of a merged file; files of half of it or more are left alone.
    """
    table.table.refresh()
    days: dict[int, list[FileScanTask]] = {}
    for task in table.table.scan().plan_files():
        days.setdefault(_day(task.file), []).append(task)
    before = after = 0
    time_field = table.table.schema().find_field(table.layout.time).field_id
    for day, tasks in sorted(days.items()):
        closed = (day + 1) * DAY_MS + CLOSED_AFTER_MS <= now_ms
        for group in _groups(tasks, time_field, target_bytes, closed=closed):
            if _merge(table, group, time_field):
                before, after = before + len(group), after + 1
    return Compacted(before, after)


def _day(file: DataFile) -> int:
    """Days since the epoch; all tables have one partition field."""
    found: Any = file.partition[0]
    return -1 if found is None else int(found)


def _groups(
    tasks: Sequence[FileScanTask], time_field: int, target_bytes: int, *, closed: bool
) -> Iterator[list[FileScanTask]]:
    """Small files in runs of up to ``target_bytes``; the last run of an open day only if it has many files."""
    small = [task for task in tasks if task.file.file_size_in_bytes < target_bytes // 2 and not task.delete_files]
    run: list[FileScanTask] = []
    size = 0
    for task in sorted(small, key=lambda each: (bound_us(each.file.lower_bounds, time_field), each.file.file_path)):
        if run and size + task.file.file_size_in_bytes > target_bytes:
            if len(run) > 1:
                yield run
            run, size = [], 0
        run.append(task)
        size += task.file.file_size_in_bytes
    if len(run) > (1 if closed else OPEN_FILES_MAX):
        yield run


def _merge(table: LakeTable, tasks: Sequence[FileScanTask], time_field: int) -> bool:
    """Replace the files of ``tasks`` by one. False: another commit came first."""
    from pyiceberg.exceptions import CommitFailedException, ValidationException  # noqa: PLC0415 - an extra
    from pyiceberg.io.pyarrow import parquet_file_to_data_file  # noqa: PLC0415 - an extra

    own, layout = table.table, table.layout
    folder = tasks[0].file.file_path.rpartition("/")[0]
    path = f"{folder}/merged-{table.new_file_name()}"
    try:
        with own.io.new_output(path).create() as out, RowWriter(layout, out) as writer:
            for rows in in_order(layout, _pieces(own, tasks), _next_us(tasks, time_field)):
                writer.write(rows)
        merged = parquet_file_to_data_file(own.io, own.metadata, path)
        with own.transaction() as transaction, transaction.update_snapshot().overwrite() as change:
            for task in tasks:
                change.delete_data_file(task.file)
            change.append_data_file(merged)
    except (CommitFailedException, ValidationException):
        delete_files([path], own.io)
        own.refresh()
        log.info("a compaction met another commit; the next run merges again", table=layout.name)
        return False
    return True


def _pieces(table: Table, tasks: Iterable[FileScanTask]) -> Iterator[pa.Table]:
    """The rows of each file, in the table's columns."""
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - an extra
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - an extra

    scan, schema = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()), None
    for task in tasks:
        rows = scan.to_table([task])
        schema = schema or rows.schema
        yield rows.cast(schema)


def _next_us(tasks: Sequence[FileScanTask], time_field: int) -> list[int]:
    """For each file the first time in the files after it, in microseconds; the files are in the order of theirs."""
    firsts = [bound_us(task.file.lower_bounds, time_field) for task in tasks]
    return [*firsts[1:], LAST_US]


def in_order(layout: TableLayout, pieces: Iterable[pa.Table], next_us: Iterable[int]) -> Iterator[pa.Table]:
    """The rows of ``pieces`` sorted by time; rows of equal time keep their order.

    Only rows that a later piece may come before are held, so that a merge holds little more than one file.

    Args:
        layout: The table.
        pieces: Rows in any order.
        next_us: For each piece, a time which no row of a later piece is before, in microseconds.
    """
    held: pa.Table | None = None
    for piece, until_us in zip(pieces, next_us, strict=True):
        rows = sorted_rows(layout, piece if held is None else pa.concat_tables([held, piece]))
        count = int(np.searchsorted(times_us(layout, rows), until_us, side="left"))
        yield rows.slice(0, count)
        held = rows.slice(count)
    if held is not None:
        yield held
