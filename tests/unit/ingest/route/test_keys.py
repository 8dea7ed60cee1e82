from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.values import Records
from crossline.ingest.route import keys
from crossline.ingest.route.keys import key_column, key_values
from crossline.ingest.route.texts import encoded_field

SPEC = load_streams(
    """
schema_version: 1
streams:
  s:
    id: i
    event_time: {field: t}
    fields: {i: string, t: integer, a: string?, b: string?, n: integer?, x: number?, f: boolean?}
""",
    "stream.yaml",
)["s"]
TYPES = {"a": pa.string(), "b": pa.string(), "n": pa.int64(), "x": pa.float64(), "f": pa.bool_()}


def records(rows: list[dict[str, Any]]) -> Records:
    count = len(rows)
    fields = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in TYPES.items()}
    ids = pa.array([str(i) for i in range(count)], pa.string())
    return Records("s", "p", ids, np.zeros(count, np.int64), None, np.arange(count), fields)


def keys_of(spec: StreamSpec, fields: tuple[str, ...], rows: list[dict[str, Any]]) -> list[bytes | None]:
    column = key_column(spec, fields, records(rows))
    return [column.values[r].as_py() if r >= 0 else None for r in column.rows.tolist()]


VALUES = st.fixed_dictionaries(
    {
        "a": st.none() | st.text("ab:,1", max_size=3),
        "b": st.none() | st.text("ab:,1", max_size=3),
        "n": st.none() | st.integers(-3, 3),
        "x": st.none() | st.sampled_from([0.1, -2.0, 1e16, 1e-9]),
        "f": st.none() | st.booleans(),
    }
)
GROUPS = st.lists(st.sampled_from(sorted(TYPES)), min_size=0, max_size=3, unique=True).map(tuple)


@given(st.lists(VALUES, min_size=1, max_size=12), GROUPS)
def test_keys_are_equal_exactly_where_all_values_are(rows: list[dict[str, Any]], fields: tuple[str, ...]) -> None:
    found = keys_of(SPEC, fields, rows)
    wanted = [tuple(row[f] for f in fields) for row in rows]
    for key, values in zip(found, wanted, strict=True):
        assert (key is None) == any(v is None for v in values)
    for i in range(len(rows)):
        for j in range(len(rows)):
            if found[i] is not None and found[j] is not None:
                assert (found[i] == found[j]) == (wanted[i] == wanted[j])


WIDE = st.fixed_dictionaries({"a": st.none() | st.text(max_size=3), "n": st.none() | st.integers(-(2**63), 2**63 - 1)})


@given(st.lists(VALUES | WIDE, min_size=1, max_size=40), GROUPS)
def test_few_rows_have_the_keys_that_many_have(rows: list[dict[str, Any]], fields: tuple[str, ...]) -> None:
    found = []
    for few in (0, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keys, "FEW", few)
            column = key_column(SPEC, fields, records(rows))
        found.append((column.rows.tolist(), column.values.to_pylist(), column.hashes.tolist()))
    assert found[0] == found[1]


@given(st.lists(VALUES, min_size=1, max_size=12), GROUPS)
def test_a_key_reads_back_as_its_values(rows: list[dict[str, Any]], fields: tuple[str, ...]) -> None:
    for key, row in zip(keys_of(SPEC, fields, rows), rows, strict=True):
        if key is not None:
            assert key_values(SPEC, fields, key) == {f: row[f] for f in fields}


@pytest.mark.parametrize(
    ("fields", "key"),
    [(("a",), b"x:1"), (("a", "b"), b"3:x:1,0:"), (("n",), b"2:-3"), (("x", "f"), b"3:0.5,5:false"), ((), b"[]")],
)
def test_the_form_is_a_promise_to_state_on_disk(fields: tuple[str, ...], key: bytes) -> None:
    assert keys_of(SPEC, fields, [{"a": "x:1", "b": "", "n": -3, "x": 0.5, "f": False}]) == [key]


def test_hashes_are_xxh64_of_the_bytes() -> None:
    column = key_column(SPEC, ("a",), records([{"a": "one"}, {"a": "two"}, {"a": "one"}]))
    assert column.hashes.tolist() == [xxhash.xxh64_intdigest(v, 0) for v in (b"one", b"two")]


def test_other_fields_of_the_same_records_have_dictionaries_of_their_own() -> None:
    fields = {"account_id": pa.array(["a", "b", "a"])}
    stamps = np.arange(3)
    mine = Records("s", "p", pa.array(["1", "2", "3"]), stamps, None, stamps, fields)
    assert encoded_field(mine, "account_id").values.to_pylist() == ["a", "b"]
    assert encoded_field(mine, "account_id") is encoded_field(mine, "account_id")
    other = replace(mine, fields={"account_id": pa.array(["c", "d", "d"])})
    assert encoded_field(other, "account_id").values.to_pylist() == ["c", "d"]
    assert encoded_field(other, "account_id").codes.tolist() == [0, 1, 1]
