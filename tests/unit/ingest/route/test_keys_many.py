"""Keys of several fields with many values each: no number that stands for a combination may leave 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.basics.values import Records
from crossline.ingest.route import keys
from crossline.ingest.route.keys import key_column

NAMES = ("a", "b", "c", "d", "e")
SPEC = load_streams(
    """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, a: string?, b: string?, c: string?, d: string?,
      e: string?}}
""",
    "stream.yaml",
)["s"]


def records(columns: dict[str, list[Any]]) -> Records:
    count = len(columns["a"])
    fields = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    ids = pa.array([str(i) for i in range(count)], pa.string())
    return Records("s", "p", ids, np.zeros(count, np.int64), None, np.arange(count), fields)


def written(*texts: str) -> bytes:
    """A key as ``keys`` promises it: each value behind its length."""
    return ",".join(f"{len(text.encode())}:{text}" for text in texts).encode()


@pytest.mark.parametrize(("fields", "values"), [(4, 70_000), (5, 6_500)])
def test_the_product_of_all_values_may_be_beyond_64_bits(fields: int, values: int) -> None:
    """One chunk in which each field has that many values, each value in one row, and the first row again at the end."""
    names = NAMES[:fields]
    rows = [*range(values), 0]
    made = records({name: [f"{name}{row}" for row in rows] for name in names})
    column = key_column(SPEC, names, made)
    assert len(column.values) == values
    found = column.values.take(pa.array(column.rows)).to_pylist()
    assert found == [written(*(f"{name}{row}" for name in names)) for row in rows]


ROWS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from(["", "1", "2", "a,1", None]) for name in NAMES}), min_size=1
)


@settings(max_examples=200)
@given(ROWS, st.sampled_from([1, 5, 30, 2**62]))
def test_keys_are_the_same_however_often_combinations_are_numbered_anew(rows: list[Any], bound: int) -> None:
    made = records({name: [row[name] for row in rows] for name in NAMES})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_NUMBER_MAX", bound)
        column = key_column(SPEC, NAMES, made)
    found = [column.values[row].as_py() if row >= 0 else None for row in column.rows.tolist()]
    wanted = [[row[name] for name in NAMES] for row in rows]
    assert found == [None if None in texts else written(*texts) for texts in wanted]


TEXTS = st.sampled_from(["", "a", "a,1", "1:a", "é" * 5, "b" * 9, "b" * 10, "c" * 99, "c" * 100, "d" * 1_000, None])


@settings(max_examples=200)
@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=keys.FEW + 1, max_size=120),
    st.sampled_from([1, 2**63 + 1, 0x9E3779B97F4A7C15]),  # with the first all pairs of one second code meet
)
def test_keys_of_two_fields_are_numbered_in_the_order_in_which_they_come(rows: list[Any], odd: int) -> None:
    made = records({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_ODD", np.uint64(odd))
        column = key_column(SPEC, ("a", "b"), made)
    wanted = [None if a is None or b is None else written(a, b) for a, b in rows]
    distinct = list(dict.fromkeys(each for each in wanted if each is not None))
    assert column.values.to_pylist() == distinct
    assert column.rows.tolist() == [-1 if each is None else distinct.index(each) for each in wanted]
    assert column.hashes.tolist() == [xxhash.xxh64_intdigest(each) for each in distinct]


def test_keys_of_two_fields_that_are_no_texts() -> None:
    count = 500
    fields = {
        "n": pa.array([-(7**21) + 10**9 * (row % 40) for row in range(count)]),
        "f": pa.array([True, False] * 250),
    }
    spec = load_streams(
        "schema_version: 1\nstreams:\n  s: {id: i, event_time: {field: t}, "
        "fields: {i: string, t: integer, n: integer, f: boolean}}\n",
        "stream.yaml",
    )["s"]
    ids = pa.array([str(row) for row in range(count)])
    made = Records("s", "p", ids, np.zeros(count, np.int64), None, np.arange(count), fields)
    column = key_column(spec, ("n", "f"), made)
    found = column.values.take(pa.array(column.rows)).to_pylist()
    texts = [(str(fields["n"][row]), "true" if fields["f"][row].as_py() else "false") for row in range(count)]
    assert found == [written(*each) for each in texts]


def test_no_record_has_a_key_where_a_field_is_missing_in_all() -> None:
    made = records({"a": [None] * 40, "b": ["x"] * 40})
    column = key_column(SPEC, ("a", "b"), made)
    assert column.rows.tolist() == [-1] * 40
    assert len(column.values) == 0


def test_one_long_text_among_many_keys() -> None:
    count, long = 20_000, "x" * 200_000
    rows = [("a", f"b{row}") for row in range(count)] + [(long, "b0"), ("a", long)]
    made = records({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    column = key_column(SPEC, ("a", "b"), made)
    assert column.values.to_pylist() == [written(*each) for each in rows]
