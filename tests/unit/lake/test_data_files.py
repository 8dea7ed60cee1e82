"""Files of rows: their order, row groups, encodings and bloom filters."""

from __future__ import annotations

import io
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.lake.maintenance.compaction import LAST_US, in_order
from crossline.lake.tables import data_files
from crossline.lake.tables.column_encodings import SAMPLE_ROWS, encodings_of
from crossline.lake.tables.data_files import RowWriter, sorted_rows, write_rows
from crossline.lake.tables.table_layouts import INSTANT, TableLayout

LAYOUT = TableLayout("t", pa.schema([("at", INSTANT), ("n", pa.int64())]), "at", ("n",))
TIMES = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=12)


def rows_of(times: list[int | None], first: int = 0) -> pa.Table:
    numbers = range(first, first + len(times))
    return pa.table({"at": pa.array(times, INSTANT), "n": pa.array(numbers, pa.int64())})


def plain(rows: pa.Table) -> list[tuple[int | None, int]]:
    return list(zip(rows.column("at").cast(pa.int64()).to_pylist(), rows.column("n").to_pylist(), strict=True))


def by_time(rows: list[tuple[int | None, int]]) -> list[tuple[int | None, int]]:
    return sorted(rows, key=lambda row: row[0] or 0)  # Python's sort keeps the order of equals


@given(TIMES)
def test_rows_are_sorted_by_time_and_equals_keep_their_order(times: list[int | None]) -> None:
    rows = rows_of(times)
    assert plain(sorted_rows(LAYOUT, rows)) == by_time(plain(rows))


@given(st.lists(TIMES, max_size=5))
def test_files_are_merged_as_if_all_were_sorted_at_once(files: list[list[int | None]]) -> None:
    files = [sorted(each, key=lambda time: time or 0) for each in files if each]
    files.sort(key=lambda each: each[0] or 0)
    counts = np.cumsum([0, *(len(each) for each in files)]).tolist()
    pieces = [rows_of(each, first) for each, first in zip(files, counts, strict=False)]
    next_us = [*(each[0] or 0 for each in files[1:]), LAST_US] if files else []
    merged = [row for each in in_order(LAYOUT, pieces, next_us) for row in plain(each)]
    assert merged == by_time([row for each in pieces for row in plain(each)])


def test_a_merge_of_files_one_after_the_other_holds_one() -> None:
    pieces = [rows_of([10 * number, 10 * number + 10], 2 * number) for number in range(5)]
    given_out = [len(each) for each in in_order(LAYOUT, pieces, [10, 20, 30, 40, LAST_US])]
    assert given_out == [1, 2, 2, 2, 3, 0]


@given(st.lists(st.integers(0, 7), max_size=9))
def test_pieces_become_whole_row_groups(counts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_files, "ROW_GROUP_ROWS", 4)
        out = io.BytesIO()
        with RowWriter(LAYOUT, out) as writer:
            for count in counts:
                writer.write(rows_of([7] * count))
    file = pq.ParquetFile(io.BytesIO(out.getvalue()))
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    total = sum(counts)
    assert groups == [4] * (total // 4) + [total % 4] * (total % 4 > 0)
    assert [n for _, n in plain(file.read())] == [n for count in counts for n in range(count)]


def test_ids_have_no_dictionary_and_keys_have_filters() -> None:
    draw = random.Random(1)
    count = 10_000
    layout = TableLayout(
        "records",
        pa.schema(
            [
                *(("at", INSTANT), ("id", pa.string()), ("account", pa.string()), ("currency", pa.string())),
                *(("cents", pa.int64()), ("lat", pa.float64()), ("share", pa.float64())),
                *(("place", pa.struct({"city": pa.string()})), ("tags", pa.list_(pa.string()))),
            ]
        ),
        "at",
        ("id",),
        ("id",),
        filters_keys=True,
    )
    rows = [
        {
            "at": number // 100,
            "id": f"p{number}",
            "account": f"a{draw.randrange(3_000)}",
            "currency": draw.choice(["EUR", "USD"]),
            "cents": draw.randrange(500),
            "lat": draw.random(),
            "share": draw.choice([0.1, 0.5]),
            "place": {"city": "Riga"},
            "tags": ["x", "y"],
        }
        for number in range(count)
    ]
    table = pa.Table.from_pylist(rows, layout.schema)
    chosen = encodings_of(layout, table, 131_072)
    assert set(chosen.dictionary) == {"account", "currency", "cents", "share", "place.city", "tags.list.element"}
    accounts = len({row["account"] for row in rows[:SAMPLE_ROWS]})
    assert chosen.distinct == {"id": count, "account": math.ceil(accounts * count / SAMPLE_ROWS)}
    assert chosen.distinct["account"] >= len({row["account"] for row in rows}), "the filter is large enough"
    out = io.BytesIO()
    write_rows(layout, table, out)
    group = pq.ParquetFile(io.BytesIO(out.getvalue())).metadata.row_group(0)
    with_dictionary = {
        group.column(number).path_in_schema
        for number in range(group.num_columns)
        if group.column(number).has_dictionary_page
    }
    assert with_dictionary == set(chosen.dictionary)
    assert pq.read_table(io.BytesIO(out.getvalue())).to_pylist() == table.to_pylist()


def test_a_file_without_rows_has_the_columns() -> None:
    out = io.BytesIO()
    write_rows(LAYOUT, LAYOUT.schema.empty_table(), out)
    assert pq.read_table(io.BytesIO(out.getvalue())).schema.names == ["at", "n"]
