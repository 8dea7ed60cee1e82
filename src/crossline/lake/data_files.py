"""Writes rows as Parquet files of a table: one a day of its time, sorted, with bloom filters."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossline.lake.table_layouts import TableLayout

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_US_PER_DAY = 86_400_000_000
ROW_GROUP_ROWS = 131_072
FILTER_FPP = 0.01
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
    group = min(ROW_GROUP_ROWS, max(1, len(rows)))
    filters = {name: {"ndv": group, "fpp": FILTER_FPP} for name in layout.filtered if name in rows.column_names}
    pq.write_table(
        rows,
        out,
        compression=COMPRESSION,
        row_group_size=group,
        coerce_timestamps="us",
        store_schema=False,
        bloom_filter_options=filters or None,
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


def sorted_rows(layout: TableLayout, rows: pa.Table) -> pa.Table:
    """``rows`` in the order of their time; rows of equal time keep theirs."""
    times = pc.fill_null(rows.column(layout.time).cast(pa.int64()), 0).to_numpy()
    return rows.take(pa.array(np.argsort(times, kind="stable")))


def _by_day(layout: TableLayout, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    ordered = sorted_rows(layout, rows)
    days = pc.fill_null(ordered.column(layout.time).cast(pa.int64()), 0).to_numpy() // _US_PER_DAY
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(ordered)]
    for start, end in itertools.pairwise(edges):
        if end > start:
            yield str(np.datetime64(int(days[start]), "D")), ordered.slice(start, end - start)
