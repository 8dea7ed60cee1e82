"""Tables: row by row the same as the record that says the same thing, and type by type what fits and what does not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decode_streams import layout_of, stream
from decoded_values import by_offset
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.ingest.decode import decode_lines, decode_table

SPEC = stream("""
    id: id
    event_time: {field: at, unit: ms}
    fields:
      id: string
      amount: integer
      place: {lat: number?, city: {name: string?}}
      ok: boolean?
      opened: timestamp?
      tags: [string?]
      sizes: [number?]
      at: integer
""")
LAYOUT = layout_of(SPEC)
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "amount": pa.int64(),
        "place": pa.struct({"lat": pa.float64(), "city": pa.struct({"name": pa.string()})}),
        "ok": pa.bool_(),
        "opened": pa.int64(),
        "tags": pa.list_(pa.string()),
        "sizes": pa.list_(pa.float64()),
        "at": pa.int64(),
        "extra": pa.string(),
    }
)
GOOD = {"id": "r1", "amount": 1, "at": 1_767_225_600_000}

FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1.5])
TIMES = st.sampled_from([None, 0, -1, 1_767_225_600_000, 7_258_118_400_000, 253_402_300_800_000, 2**62])
ROWS = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["r1", "r2", "", "é", None]),
        "amount": st.none() | st.integers(-(2**63), 2**63 - 1),
        "place": st.none()
        | st.fixed_dictionaries({"lat": st.none() | FLOATS, "city": st.none() | st.just({"name": "x"}) | st.just({})}),
        "ok": st.none() | st.booleans(),
        "opened": TIMES,
        "tags": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3),
        "sizes": st.none() | st.lists(FLOATS, max_size=3),
        "at": TIMES,
    }
)


def table_of(**columns: Any) -> pa.Table:
    return pa.table({name: pa.array([value]) for name, value in GOOD.items()} | columns)


@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS | st.just(GOOD), max_size=8), st.integers(0, 3))
def test_a_row_is_what_its_json_record_is(rows: list[dict[str, Any]], skipped: int) -> None:
    table = pa.Table.from_pylist([GOOD] * skipped + rows, SCHEMA).slice(skipped)
    wanted: dict[int, Any] = {}
    for number, row in enumerate(rows):
        line = json.dumps(row).replace("NaN", "1e999").replace("Infinity", "1e999")
        (wanted[number],) = by_offset(decode_lines(LAYOUT, line.encode(), "f", 0)).values()
    assert by_offset(decode_table(LAYOUT, table, "f", np.arange(len(rows)))) == wanted


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("amount", pa.array([7], pa.int8()), 7),
        ("amount", pa.array([2**63], pa.uint64()), "bad_number"),
        ("amount", pa.array([Decimal(7)], pa.decimal128(10, 0)), 7),
        ("amount", pa.array([Decimal(10**20)], pa.decimal128(30, 0)), "bad_number"),
        ("amount", pa.array([Decimal("7.5")], pa.decimal128(10, 1)), "wrong_type"),
        ("amount", pa.array([7.0]), "wrong_type"),
        ("amount", pa.array(["7"]), "wrong_type"),
        ("amount", pa.array([None]), "missing_field"),
        ("ok", pa.array([1]), "wrong_type"),
        ("ok", pa.array([None]), None),
        ("place.lat", pa.array([5]), 5.0),
        ("place.lat", pa.array([-0.0]), 0.0),
        ("place.lat", pa.array([float("nan")]), "bad_number"),
        ("place.lat", pa.array([Decimal("7.25")]), 7.25),
        ("place", pa.array([5]), "wrong_type"),
        ("tags", pa.array([["a"]], pa.large_list(pa.large_string())), ["a"]),
        ("tags", pa.array([[None]], pa.list_(pa.string())), "wrong_type"),
        ("tags", pa.array(["a"]), "wrong_type"),
        ("sizes", pa.array([[1, 2]]), [1.0, 2.0]),
        ("id", pa.array(["r9"]).dictionary_encode(), "r9"),
        ("id", pa.array(["r9"], pa.large_string()), "r9"),
        ("id", pa.array([b"r9"]), "wrong_type"),
        ("id", pa.array([b"\xff"]).view(pa.string()), "bad_encoding"),
        ("opened", pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "Europe/Paris")), 1_767_225_600_000),
        ("opened", pa.array([1_767_225_600_000_999_999], pa.timestamp("ns")), 1_767_225_600_000),
        ("opened", pa.array([date(1969, 12, 31)]), -86_400_000),
        ("opened", pa.array(["2026-01-01T01:00:00+01:00"]), 1_767_225_600_000),
        ("opened", pa.array(["2026-01-01T01:00:00"]), "bad_time"),
        ("opened", pa.array([2**62], pa.timestamp("s")), "time_out_of_range"),
        ("at", pa.array([-1]), "time_out_of_range"),
        ("at", pa.array([datetime(2026, 1, 1, tzinfo=UTC)]), "wrong_type"),
    ],
)
def test_what_fits_a_declared_type(name: str, array: pa.Array, expected: Any) -> None:
    decoded = decode_table(LAYOUT, table_of(**{name: array}), "f", np.zeros(1, np.int64))
    if decoded.dead:
        assert decoded.dead[0].reason == expected
    else:
        assert decoded.records.fields[name].to_pylist() == [expected]
        assert str(decoded.records.fields[name].to_pylist()) == str([expected])


def test_a_timestamp_column_is_the_event_time_where_the_stream_says_timestamp() -> None:
    spec = stream("{id: id, event_time: {field: at, unit: iso8601}, fields: {id: integer, at: timestamp}}")
    table = pa.table({"id": [5], "at": pa.array([1_767_225_600_123_456], pa.timestamp("us", "UTC"))})
    records = decode_table(layout_of(spec), table, "f", np.zeros(1, np.int64), np.array([9])).records
    assert records.event_ms.tolist() == [1_767_225_600_123]
    assert records.ids.to_pylist() == ["5"]
    assert records.ingest_ms is not None
    assert records.ingest_ms.tolist() == [9]


def test_a_dead_row_is_reported_in_full() -> None:
    table = pa.table({"id": ["r1", "r2"], "amount": [1, None], "at": [1_767_225_600_000] * 2})
    decoded = decode_table(LAYOUT, table, "part-0", np.array([10, 11]))
    assert decoded.records.offsets.tolist() == [10]
    (letter,) = decoded.dead
    assert (letter.reason, letter.offset, letter.partition, letter.record_id) == ("missing_field", 11, "part-0", "r2")
    assert letter.detail == "field amount: found None, expected integer"
    assert json.loads(letter.raw or b"") == {"id": "r2", "amount": None, "at": 1_767_225_600_000}


def test_a_name_that_comes_twice_is_refused() -> None:
    twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["id", "id"])
    with pytest.raises(UsageError, match="column id comes 2 times"):
        decode_table(LAYOUT, twice, "f", np.zeros(1, np.int64))
