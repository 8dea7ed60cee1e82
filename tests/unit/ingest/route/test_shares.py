"""Texts by number, and rows by shard, against twins that use no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.basics.values import Columns, Records
from crossline.basics.wire import Arrays
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.decode.keys import texts as kernels
from crossline.ingest.route import texts
from crossline.ingest.route.key_rows import Rows
from crossline.ingest.route.keys import KeyColumn
from crossline.ingest.route.shares import arrays_by_shard, pieces, shared_out
from crossline.ingest.route.texts import Encoded, bytes_of, encoded, encoded_field, gathered

from . import naive_shares

# Short and long, around the eight bytes that are read at once, alike but for one byte, and of several bytes a letter.
TEXT = st.sampled_from(["", "a", "b", "é", "€uro", "abcdefg", "abcdefgh", "abcdefgi", "abcdefghi", "a" * 16, "a" * 17])
ANY = TEXT | st.text(max_size=12) | st.integers(0, 9).map(lambda n: "x" * (n * 40) + str(n))
COLUMN = st.lists(ANY | st.none(), max_size=60)
MANY = st.lists(st.integers(0, 3_000).map(str), min_size=200, max_size=400)


def is_as(found: Encoded, column: pa.Array) -> None:
    codes, values = naive_shares.encoded(column)
    assert found.codes.dtype == np.int32
    assert found.codes.tolist() == codes
    assert found.values.to_pylist() == values


@settings(max_examples=200, deadline=None)
@given(COLUMN | MANY, st.integers(0, 5), st.integers(0, 5), st.sampled_from([1, 3, 2**63 + 1, 0x9E3779B97F4A7C15]))
def test_texts_are_numbered_in_the_order_in_which_they_come(
    values: list[str | None], before: int, behind: int, secret: int
) -> None:
    whole = pa.array(values, pa.string())
    column = whole.slice(before, max(len(whole) - before - behind, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_SECRET", np.uint64(secret))  # with the first one most texts meet
        is_as(encoded(column), column)


def test_a_table_grows_with_its_texts() -> None:
    for count in (kernels.SLOTS_FIRST // 4, kernels.SLOTS_FIRST // 4 + 1, 3_000):
        column = pa.array([f"text {n}" for n in range(count)] * 2)
        is_as(encoded(column), column)


@pytest.mark.parametrize("column", [pa.array([3, None, 3, 1]), pa.array([None, None], pa.string()), pa.array([True])])
def test_other_columns_are_numbered_too(column: pa.Array) -> None:
    is_as(encoded(column), column)


SPEC = load_streams(
    "schema_version: 1\nstreams:\n  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string?}}\n",
    "stream.yaml",
)["s"]
LINES = st.lists(st.sampled_from(['"a"', '"b"', '"\\u00e9"', '"é"', "null", '""', None]), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(LINES, st.booleans())
def test_texts_are_numbered_where_they_stand_in_lines(values: list[str | None], a_dead_one: bool) -> None:
    rows = [f'{{"i":"r{n}","t":{n}' + ("" if each is None else f',"k":{each}') + "}" for n, each in enumerate(values)]
    rows[:0] = ["{"] if a_dead_one else []
    records = decode_lines(make_layout("s", SPEC), "\n".join(rows).encode() + b"\n", "log", 0).records
    assert isinstance(records.fields, Columns)
    found = encoded_field(records, "k")
    assert ("k" in records.fields.made) == any(each == '"\\u00e9"' for each in values)  # no column was made
    is_as(found, records.fields["k"])


def test_numbers_and_columns_made_have_no_places() -> None:
    records = decode_lines(make_layout("s", SPEC), b'{"i":"a","t":1,"k":"x"}\n' * 2, "log", 0).records
    assert isinstance(records.fields, Columns)
    assert records.fields.places(1) is None
    assert encoded_field(records, "t").codes.tolist() == [0, 0]
    assert records.fields["k"].to_pylist() == ["x", "x"]
    assert encoded_field(records, "k").values.to_pylist() == ["x"]


@settings(max_examples=100, deadline=None)
@given(st.lists(ANY, max_size=30), st.data())
def test_chosen_texts_stand_end_to_end(values: list[str], data: st.DataObject) -> None:
    places = st.integers(0, len(values) - 1) if values else st.nothing()
    shares = data.draw(st.lists(st.lists(places, max_size=8 if values else 0), min_size=1, max_size=4))
    order = np.array([place for share in shares for place in share], np.int64)
    ends = np.cumsum([len(share) for share in shares])
    array = pa.array(["before", *values], pa.string()).slice(1)
    found = gathered(array, order, ends, repeated=True)
    for share, (raw, offsets) in zip(shares, found, strict=True):
        expected = naive_shares.bytes_of([values[place] for place in share])
        assert raw.tobytes() == expected["bytes"].tobytes()
        assert offsets.tolist() == expected["offsets"].tolist()


def test_bytes_of_a_slice_start_at_zero() -> None:
    data, offsets = bytes_of(pa.array(["aa", "b", "cc"]).slice(1))
    assert data.tobytes() == b"bcc"
    assert offsets.tolist() == [0, 1, 3]


def same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)  # they travel in this order
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert found[name].tolist() == array.tolist(), name


def key_column(values: Sequence[str | None]) -> KeyColumn:
    codes, distinct = naive_shares.encoded(pa.array(values, pa.string()))
    raw = [each.encode() for each in distinct]
    hashes = np.array([xxhash.xxh64_intdigest(each) for each in raw], np.uint64)
    return KeyColumn(np.array(codes, np.int32), pa.array(raw, pa.binary()), hashes)


def routed(rows: list[tuple[str | None, str, bool, str]], shards: int, width: int, each: int, every: bool) -> None:
    """Rows of a key, an id, whether they are wanted, and a text; ``each``: rows of a record."""
    keys = key_column([key for key, *_ in rows])
    count, records_count = len(rows), -(-len(rows) // each)
    wanted = np.array([every or want for _, _, want, _ in rows], np.bool_) & (keys.rows >= 0)
    bits = (np.arange(count * width).reshape(count, width) * 7).astype(np.uint8)
    of = None if each == 1 else np.arange(count) // each
    entering = Rows(keys, bits, of)
    one = rows[::each]
    stamps = np.arange(records_count)
    records = Records("s", "p", pa.array([id_ for _, id_, *_ in one], pa.string()), stamps * 3, None, stamps * 100)
    times = {"clock_ms": stamps + 5, "reached_ms": stamps + 6}
    columns: list[Any] = [stamps / 4, encoded(pa.array([text for *_, text in one], pa.string())), stamps - 9]
    shares = shared_out(entering, wanted, shards)
    found = arrays_by_shard(shares, entering, records, times, columns)
    expected = naive_shares.shares(entering, wanted, shards)
    assert [shares.rows[mine].tolist() for mine in pieces(shares.ends)] == [mine.tolist() for mine in expected]
    assert [shares.of[mine].tolist() for mine in pieces(shares.ends)] == [entering.of(m).tolist() for m in expected]
    for shard, mine in enumerate(expected):
        same(found[shard], naive_shares.arrays_of(entering, mine, shard, shards, records, times, columns))


KEY = st.none() | st.integers(0, 30).map(lambda n: f"k{n}") | st.sampled_from(["", "é" * 9, "k" * 100])
ROW = st.tuples(KEY, ANY, st.booleans(), TEXT)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(ROW, max_size=50),
    st.sampled_from([*range(1, 10), 17, 40]),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([1, 1, 3]),
    st.booleans(),
)
def test_each_shard_has_what_the_twin_gives_it(
    rows: list[tuple[str | None, str, bool, str]], shards: int, width: int, each: int, every: bool
) -> None:
    routed(rows, shards, width, each, every)


def test_a_single_shard_takes_all_records_as_they_stand() -> None:
    rows = [(f"k{n % 3}", f"id{n}", True, "x") for n in range(9)]
    routed(rows, 1, 1, 1, True)
    stamps = np.arange(9)
    entering = Rows(key_column([key for key, *_ in rows]), np.ones((9, 1), np.uint8))
    records = Records("s", "p", pa.array(["i"] * 9), stamps, None, stamps)
    shares = shared_out(entering, np.ones(9, np.bool_), 1)
    (found,) = arrays_by_shard(shares, entering, records, {}, [])
    assert np.shares_memory(found["event_ms"], records.event_ms)
