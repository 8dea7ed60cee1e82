"""Keys of several fields with many values each: no number that stands for a combination may leave 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
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
