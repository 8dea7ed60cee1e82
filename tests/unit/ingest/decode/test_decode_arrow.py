"""Arrow columns of every type and layout: each is read as what it says or refused by name, and stops no other."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from decode_streams import layout_of, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.ingest.decode import decode_table

DEEP = os.environ.get("CROSSLINE_DEEP") == "1"
LAYOUT = layout_of(
    stream("""
    id: id
    event_time: {field: at, unit: ms}
    fields:
      id: string
      s: string?
      i: integer?
      n: number?
      b: boolean?
      t: timestamp?
      ls: [string?]
      li: [integer?]
      ln: [number?]
      lt: [timestamp?]
      at: integer
    """)
)
FIELDS = ("s", "i", "n", "b", "t", "ls", "li", "ln", "lt", "id", "at")


class Wrapped(pa.ExtensionType):
    """A whole number by another name."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "crossline.tests.wrapped")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Wrapped:
        return cls()


NUMBERS = [
    *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ns", "Asia/Tokyo")),
    *(
        pa.date32(),
        pa.time32("s"),
        pa.time32("ms"),
        pa.time64("us"),
        pa.time64("ns"),
        pa.duration("s"),
        pa.month_day_nano_interval(),
    ),
]
DECIMALS = [
    *(pa.decimal32(5, 2), pa.decimal64(10, 2), pa.decimal128(20, 2), pa.decimal256(60, 2)),
    *(pa.decimal32(5, 0), pa.decimal64(9, 0), pa.decimal128(20, 0), pa.decimal256(60, 0), pa.decimal128(38, 18)),
]
PLAIN: dict[str, pa.Array] = {
    "null": pa.nulls(2),
    "boolean": pa.array([True, None]),
    **{str(kind): pa.array([(1, 2, 3) if "interval" in str(kind) else 1, None], kind) for kind in NUMBERS},
    **{str(kind): pa.array([Decimal(1), None], kind) for kind in DECIMALS},
    "decimal of hundreds": pa.array([Decimal(100), None], pa.decimal128(20, -2)),
    "date64": pa.array([86_400_000, None], pa.date64()),
    **{str(kind): pa.array(["a", None], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{
        str(kind): pa.array([b"a", None], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))
    },
    "struct": pa.array([{"x": 1}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]
    ),
    "wrapped": pa.ExtensionArray.from_storage(Wrapped(), pa.array([1, None])),
    "uuid": pa.array([b"0123456789abcdef", None], pa.uuid()),
    "json": pa.array(['{"a":1}', None], pa.json_()),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8())),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2], None], pa.list_(pa.int32(), 2))
    ),
}


def dictionary(array: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), array)


def runs(array: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int16()), array)


def lists(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), array)


def large_lists(array: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), array)


def fixed_lists(array: pa.Array) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(array, 1)


def list_views(array: pa.Array) -> pa.Array:
    return pa.ListViewArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([1, 1], pa.int32()), array)


def as_is(array: pa.Array) -> pa.Array:
    return array


Layer = Callable[[pa.Array], pa.Array]
OF_LISTS: tuple[Layer, ...] = (as_is, lists, large_lists, fixed_lists, list_views)
OF_VALUES: tuple[Layer, ...] = (as_is, dictionary, runs)
REFUSED: tuple[list[Any], list[tuple[int, str]]] = ([], [(0, "wrong_type"), (1, "wrong_type")])
# With the sum of their places: a third of them, those of one remainder, has each pair of layers.
LAYERS = tuple(
    (sum(places), (OF_VALUES[places[0]], OF_LISTS[places[1]], OF_VALUES[places[2]]))
    for places in product(*(range(len(each)) for each in (OF_VALUES, OF_LISTS, OF_VALUES)))
)


def read(field: str, array: pa.Array) -> tuple[list[Any], list[tuple[int, str]]]:
    """The values of good rows, and the row and reason of each dead letter."""
    columns = {"id": pa.array(["r1", "r2"]), "at": pa.array([1_767_225_600_000] * 2), field: array}
    decoded = decode_table(LAYOUT, pa.table(columns), "f", np.arange(2))
    assert len(decoded.records) + len(decoded.dead) == 2
    return decoded.records.fields[field].to_pylist(), [(letter.offset, letter.reason) for letter in decoded.dead]


@pytest.mark.parametrize("name", PLAIN)
def test_a_column_of_any_type_and_layout_is_read_or_refused(name: str) -> None:
    """However values lie in memory, what comes of them is the same.

    Of each type and field the layers are met in pairs, of which a deep run makes all threes; a field meets the others
    with the types next to this one.
    """
    array = PLAIN[name]
    for turn, field in enumerate(FIELDS, list(PLAIN).index(name)):
        alone, many = read(field, array), read(field, lists(array))
        for outer, middle, inner in [layers for place, layers in LAYERS if DEEP or (place + turn) % 3 == 0]:
            made = outer(middle(inner(array)))
            found, wanted = read(field, made), alone if middle is as_is else many
            if as_is in (outer, middle) or found != REFUSED:  # Arrow cannot take all kinds of lists out of others
                assert found == wanted, (name, field, made.type)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("float", "n", 1.0),
        ("halffloat", "n", 1.0),
        ("uint64", "i", 1),
        ("string_view", "s", "a"),
        ("large_string", "s", "a"),
        ("json", "s", '{"a":1}'),
        ("wrapped", "i", 1),
        ("decimal of hundreds", "i", 100),
        ("decimal32(5, 2)", "i", 1),
        ("decimal256(60, 2)", "n", 1.0),
        ("decimal128(38, 18)", "i", 1),
        ("date64", "t", 86_400_000),
        ("date32[day]", "t", 86_400_000),
        ("timestamp[s]", "t", 1000),
        ("timestamp[ns, tz=Asia/Tokyo]", "t", 0),
        ("boolean", "b", True),
    ],
)
def test_what_is_read(name: str, field: str, value: Any) -> None:
    assert read(field, PLAIN[name]) == ([value, None], [])
    assert read(field, dictionary(PLAIN[name])) == ([value, None], [])


@pytest.mark.parametrize(
    ("name", "field"),
    [("binary_view", "s"), ("map", "ls"), ("duration[s]", "i"), ("time32[s]", "t"), ("uuid", "s"), ("struct", "n")],
)
def test_what_is_refused(name: str, field: str) -> None:
    assert read(field, PLAIN[name]) == ([None], [(0, "wrong_type")])


def test_parts_of_columns_are_read_as_they_stand() -> None:
    array = runs(pa.array(["a", "b"])).slice(1)
    table = pa.table({"id": array, "s": dictionary(pa.array(["a", "b"])).slice(1), "at": [1_767_225_600_000]})
    fields = decode_table(LAYOUT, table, "f", np.arange(1)).records.fields
    assert [fields[name].to_pylist() for name in ("id", "s")] == [["b"], ["b"]]


def test_chunks_of_a_column_may_have_dictionaries_of_their_own() -> None:
    chunks = [pa.array(["r1", "r2"]).dictionary_encode(), pa.array(["r3"]).dictionary_encode()]
    table = pa.table({"id": pa.chunked_array(chunks), "at": [1_767_225_600_000] * 3})
    assert decode_table(LAYOUT, table, "f", np.arange(3)).records.ids.to_pylist() == ["r1", "r2", "r3"]


@pytest.mark.parametrize("layer", [dictionary, as_is])
def test_lists_of_dictionaries_come_whole_out_of_parquet(layer: Layer) -> None:
    file = io.BytesIO()
    columns = {"id": ["r1", "r2"], "at": [1_767_225_600_000] * 2, "ls": lists(layer(pa.array(["a", "b"])))}
    pq.write_table(pa.table(columns), file)
    found = decode_table(LAYOUT, pq.read_table(file), "f", np.arange(2)).records
    assert found.fields["ls"].to_pylist() == [["a"], ["b"]]


def test_a_dead_letter_shows_a_row_whatever_its_columns_are() -> None:
    """The first row has no id; its other columns are of every type, and the second row is taken."""
    others = {f"x{number}": runs(array) for number, array in enumerate(PLAIN.values())}
    table = pa.table({"id": [None, "r2"], "at": [1_767_225_600_000] * 2, **others})
    decoded = decode_table(LAYOUT, table, "f", np.arange(2))
    assert decoded.records.ids.to_pylist() == ["r2"]
    assert [letter.reason for letter in decoded.dead] == ["missing_field"]
    assert set(json.loads(decoded.dead[0].raw or b"")) == set(table.column_names)


DIGITS = st.integers(-(10**9), 10**9) | st.integers(-(10**18), 10**18) | st.integers(-(10**38) + 1, 10**38 - 1)
KINDS = st.sampled_from([pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
DIGITS_MAX = {pa.decimal32: 9, pa.decimal64: 18, pa.decimal128: 38, pa.decimal256: 76}


def decimals(kind: Any, digits: list[int | None], scale: int) -> tuple[list[Decimal | None], pa.DataType]:
    """The decimals that ``kind`` can hold, and their type."""
    most = DIGITS_MAX[kind]
    scale = min(scale, most)
    bound = 10 ** min(most + scale, most)  # Arrow makes none whose zeros do not fit
    return [None if d is None or abs(d) >= bound else Decimal(f"{d}E{-scale}") for d in digits], kind(most, scale)


def nearest(value: Decimal) -> float:
    """By its definition: integers and one correctly rounded division, as Python has it."""
    exact = Fraction(value)
    return exact.numerator / exact.denominator + 0.0


@settings(max_examples=200, deadline=None)
@given(KINDS, st.lists(st.none() | DIGITS, min_size=1, max_size=6), st.integers(-3, 38), st.integers(0, 3))
def test_decimals_become_the_nearest_double(kind: Any, digits: list[int | None], scale: int, skipped: int) -> None:
    kept, given_type = decimals(kind, digits, scale)
    array = pa.array([*[None] * skipped, *kept], given_type).slice(skipped)
    table = pa.table({"id": ["r"] * len(kept), "at": [1_767_225_600_000] * len(kept), "n": array})
    decoded = decode_table(LAYOUT, table, "f", np.arange(len(kept)))
    assert decoded.dead == []
    assert decoded.records.fields["n"].to_pylist() == [None if v is None else nearest(v) for v in kept]


@settings(max_examples=200, deadline=None)
@given(KINDS, st.lists(st.none() | DIGITS, min_size=1, max_size=6), st.integers(-3, 38))
def test_whole_decimals_are_integers_and_others_are_refused(kind: Any, digits: list[int | None], scale: int) -> None:
    kept, given_type = decimals(kind, digits, scale)
    table = pa.table({"id": ["r"] * len(kept), "at": [1_767_225_600_000] * len(kept), "i": pa.array(kept, given_type)})
    decoded = decode_table(LAYOUT, table, "f", np.arange(len(kept)))
    reasons = {letter.offset: letter.reason for letter in decoded.dead}
    good = iter(decoded.records.fields["i"].to_pylist())
    for row, value in enumerate(kept):
        if value is not None and Fraction(value).denominator != 1:
            assert reasons[row] == "wrong_type"
        elif value is not None and not -(2**63) <= Fraction(value) < 2**63:
            assert reasons[row] == "bad_number"
        else:
            assert next(good) == value


def test_every_amount_of_cents_is_that_of_json() -> None:
    """A quarter of them was not, when Arrow multiplied by 0.01."""
    amounts = [Decimal(f"{cents}E-2") for cents in range(100_000)]
    table = pa.table(
        {
            "id": ["r"] * len(amounts),
            "at": pa.array(np.full(len(amounts), 1_767_225_600_000)),
            "n": pa.array(amounts, pa.decimal128(12, 2)),
        }
    )
    found = decode_table(LAYOUT, table, "f", np.arange(len(amounts))).records.fields["n"].to_pylist()
    assert found == [float(f"{cents // 100}.{cents % 100:02d}") for cents in range(100_000)]
