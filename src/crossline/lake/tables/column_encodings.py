"""Chooses for each column of a file whether it has a dictionary and a bloom filter, by its first rows.

A dictionary of nearly unique values costs time and bytes, and is given up within a row group: files of payments are a
fifth smaller without it. Strings with many values are ids and keys: a bloom filter lets engines leave out row groups
that do not have the value that a query asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from crossline.lake.tables.table_layouts import TableLayout

SAMPLE_ROWS = 8_192
UNIQUE_SHARE = 0.9  # of numbers; the dictionary of others is smaller than their values
UNIQUE_STRINGS_SHARE = 0.99  # a string is longer than an index
KEY_SHARE = 0.125  # of strings: those with fewer values are categories
FILTER_FPP = 0.01


@dataclass(frozen=True, slots=True)
class ColumnEncodings:
    """How columns are written.

    Attributes:
        dictionary: The columns with a dictionary, by their paths in Parquet.
        distinct: By column with a bloom filter, how many distinct values of a row group it is made for.
    """

    dictionary: tuple[str, ...]
    distinct: dict[str, int]

    def filters(self) -> dict[str, dict[str, float]] | None:
        """The options of the Parquet writer; None: no column has a filter."""
        return {name: {"ndv": count, "fpp": FILTER_FPP} for name, count in self.distinct.items()} or None


def encodings_of(layout: TableLayout, rows: pa.Table, group_rows: int) -> ColumnEncodings:
    """The encodings of a file.

    Args:
        layout: The table.
        rows: Its first rows; n of them, a row group or fewer.
        group_rows: Rows of a row group.
    """
    group = max(1, min(group_rows, len(rows)))
    dictionary: list[str] = []
    distinct: dict[str, int] = {}
    for field in rows.schema:
        column = rows.column(field.name)
        share = _distinct_share(column)
        if not (field.name == layout.time or share >= _unique_from(field.type)):
            dictionary += _leaves(field.name, field.type)
        if field.name in layout.filtered:
            distinct[field.name] = group
        elif layout.filters_keys and pa.types.is_string(field.type) and share >= KEY_SHARE:
            distinct[field.name] = math.ceil(share * group)  # at least as many as there are, if rows are alike
    return ColumnEncodings(tuple(dictionary), distinct)


def _distinct_share(column: pa.ChunkedArray) -> float:
    """Distinct values per row of the first rows; 0 for columns of structs and lists."""
    if pa.types.is_nested(column.type) or not len(column):
        return 0.0
    sample = column.slice(0, SAMPLE_ROWS)
    return float(pc.count_distinct(sample, mode="only_valid").as_py() / len(sample))


def _unique_from(kind: pa.DataType) -> float:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return UNIQUE_STRINGS_SHARE
    return UNIQUE_SHARE


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of a column's values in Parquet.

    >>> list(_leaves("place", pa.struct({"city": pa.string(), "tags": pa.list_(pa.string())})))
    ['place.city', 'place.tags.list.element']
    """
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
