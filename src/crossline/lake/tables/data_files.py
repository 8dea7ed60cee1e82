"""Writes rows as Parquet files of a table: one a day of its time, sorted, with bloom filters."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossline.basics.values import I64
from crossline.lake.tables.column_encodings import encodings_of
from crossline.lake.tables.table_layouts import TableLayout

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_US_PER_DAY = 86_400_000_000
ROW_GROUP_ROWS = 131_072
COMPRESSION = "zstd"


def write_files(layout: TableLayout, rows: pa.Table, location: str, io: FileIO) -> list[str]:
    """Write ``rows`` and return the locations of the files, which no table refers to yet.

    Args:
        layout: The table; ``rows`` have its columns.
        rows: n rows, in any order. Rows of equal time keep theirs.
        location: The table's location.
        io: The table's files.
    """
    paths: list[str] = []
    try:
        for day, part in _by_day(layout, rows):
            path = f"{location}/data/{layout.time}_day={day}/{uuid.uuid4().hex}.parquet"
            paths.append(path)
            with io.new_output(path).create() as out:
                write_rows(layout, part, out)
    except BaseException:
        delete_files(paths, io)
        raise
    return paths


def write_rows(layout: TableLayout, rows: pa.Table, out: object) -> None:
    """Write ``rows``, which are sorted, as one Parquet file into the stream ``out``."""
    with RowWriter(layout, out) as writer:
        writer.write(rows)


class RowWriter:
    """Writes sorted rows as one Parquet file, piece by piece, in whole row groups. A context manager.

    Args:
        layout: The table.
        out: The stream of the file.

    Example:
        >>> with RowWriter(layout, out) as writer:  # doctest: +SKIP
        ...     writer.write(first)
        ...     writer.write(second)
    """

    def __init__(self, layout: TableLayout, out: object) -> None:
        self._layout = layout
        self._out = out
        self._rows: list[pa.Table] = []
        self._count = 0
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error == (None, None, None):
            self._flush(1)
            self._writer = self._writer or self._opened(self._layout.schema.empty_table())
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.Table) -> None:
        """Append ``rows``, none of which is before one that was written."""
        self._rows.append(rows)
        self._count += len(rows)
        self._flush(ROW_GROUP_ROWS)

    def _flush(self, least: int) -> None:
        """Write row groups while there are ``least`` rows."""
        if self._count < least:
            return
        rows, at = pa.concat_tables(self._rows), 0
        if self._writer is None:
            self._writer = self._opened(rows)
        while len(rows) - at >= least:
            self._writer.write_table(rows.slice(at, ROW_GROUP_ROWS), row_group_size=ROW_GROUP_ROWS)
            at = min(len(rows), at + ROW_GROUP_ROWS)
        self._rows, self._count = [rows.slice(at)], len(rows) - at

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        chosen = encodings_of(self._layout, first, ROW_GROUP_ROWS)
        return pq.ParquetWriter(
            self._out,
            first.schema,
            compression=COMPRESSION,
            use_dictionary=list(chosen.dictionary),
            coerce_timestamps="us",
            store_schema=False,
            bloom_filter_options=chosen.filters(),
        )


def delete_files(paths: list[str], io: FileIO) -> None:
    """Delete files that no table refers to; one that is not there is none."""
    for path in paths:
        try:
            io.delete(path)
        except FileNotFoundError:
            continue


def bound_us(bounds: Mapping[int, bytes] | None, field_id: int) -> int:
    """A bound of an instant in a file, in microseconds of the epoch, which is how Iceberg writes it; 0: it has none."""
    bound = (bounds or {}).get(field_id)
    return 0 if bound is None else int.from_bytes(bound, "little", signed=True)


def times_us(layout: TableLayout, rows: pa.Table) -> I64:
    """The times of rows, in microseconds of the epoch; 0 where a row has none."""
    found: I64 = pc.fill_null(rows.column(layout.time).cast(pa.int64()), 0).to_numpy()
    return found


def sorted_rows(layout: TableLayout, rows: pa.Table) -> pa.Table:
    """``rows`` in the order of their time; rows of equal time keep theirs. Only what is out of order is copied."""
    times = times_us(layout, rows)
    falls = np.flatnonzero(times[1:] < times[:-1])
    if not len(falls):
        return rows
    # Rows before the smallest time that comes too late stand where they are, as do those behind the largest one.
    first = int(np.searchsorted(times[: falls[0] + 1], times[falls[0] + 1 :].min(), side="right"))
    rest = times[falls[-1] + 1 :]
    end = falls[-1] + 1 + int(np.searchsorted(rest, times[: falls[-1] + 1].max(), side="left"))
    order = first + np.argsort(times[first:end], kind="stable")
    return pa.concat_tables([rows.slice(0, first), rows.take(pa.array(order)), rows.slice(end)])


def _by_day(layout: TableLayout, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    ordered = sorted_rows(layout, rows)
    days = times_us(layout, ordered) // _US_PER_DAY
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(ordered)]
    for start, end in itertools.pairwise(edges):
        if end > start:
            yield str(np.datetime64(int(days[start]), "D")), ordered.slice(start, end - start)
