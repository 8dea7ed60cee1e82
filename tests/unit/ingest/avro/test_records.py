"""Records of Avro into columns: what a stream declares decides."""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from .avrokit import ID, Json, decoded, layout_of, node, one, outcome, record_schema, written

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "lat", "type": ["null", "double"]}, {"name": "lon", "type": "float"}],
}


# fmt: off
FITS: list[tuple[str, Json, Json, Json]] = [
    ("string", "string", "grüße", "grüße"),
    ("string", ["null", "string"], "", ""),
    ("string", COLOUR, "BLUE", "BLUE"),
    ("string", {"type": "string", "logicalType": "uuid"}, "no uuid", "no uuid"),
    ("string", {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"}, uuid.UUID(int=1).bytes,
     "00000000-0000-0000-0000-000000000001"),
    ("boolean", "boolean", True, True),
    ("integer", "int", -(2**31), -(2**31)),
    ("integer", "long", 2**63 - 1, 2**63 - 1),
    ("integer", ["long", "null", "string"], -(2**63), -(2**63)),
    ("integer", DECIMAL, Decimal("-12.00"), -12),
    ("number", "int", 5, 5.0),
    ("number", "long", 2**53, 2.0**53),
    ("number", "float", 0.5, 0.5),
    ("number", "double", -0.0, 0.0),
    ("number", DECIMAL, Decimal("0.10"), 0.1),
    ("number", DECIMAL, Decimal("-9999999999999.99"), -9999999999999.99),
    ("number", DECIMAL, Decimal(2**70), 2.0**70),
    ("timestamp", MILLIS, 1_500, 1_500),
    ("timestamp", MICROS, -1, -1),
    ("timestamp", {"type": "long", "logicalType": "local-timestamp-micros"}, 1_999, 1),
    ("timestamp", {"type": "int", "logicalType": "date"}, date(1970, 1, 3), 2 * 86_400_000),
    ("timestamp", "long", 7, 7),
    ("timestamp", "double", 7.25, 7),
    ("timestamp", "string", "1970-01-01T00:00:01.5Z", 1_500),
    ("[string]", {"type": "array", "items": "string"}, ["a", ""], ["a", ""]),
    ("[integer]", {"type": "array", "items": ["long", "null"]}, [1, 2], [1, 2]),
    ("[number]", {"type": "map", "values": "int"}, {"x": 1, "y": 2}, [1.0, 2.0]),
    ("[string]?", ["null", {"type": "array", "items": "string"}], None, None),
    ("integer?", ["null", "long"], None, None),
    ("integer?", "null", None, None),
]
# fmt: on


@pytest.mark.parametrize(("kind", "schema", "value", "expected"), FITS)
def test_what_fits(kind: str, schema: Json, value: Json, expected: Json) -> None:
    found = one(layout_of(f'x: "{kind}"'), record_schema(("x", schema)), {"x": value})
    assert found == {"id": "p1", "event_time": 1_000, "x": expected}


# fmt: off
REFUSED: list[tuple[str, Json, Json, str, str]] = [
    ("integer", ["null", "long"], None, "missing_field", "field x is missing or null, expected integer"),
    ("integer", "string", "5", "wrong_type", 'field x: found string "5", expected integer'),
    ("integer", "double", 5.0, "wrong_type", "field x: found double 5.0, expected integer"),
    ("integer", DECIMAL, Decimal("0.5"), "wrong_type", "field x: found decimal 0.50, expected integer"),
    ("integer", DECIMAL, Decimal(2**63), "bad_number",
     "field x: found decimal 9223372036854775808.00, beyond a 64-bit integer"),
    ("string", "long", 5, "wrong_type", "field x: found long 5, expected string"),
    ("string", "bytes", b"ab", "wrong_type", "field x: found bytes of 2 bytes, expected string"),
    ("string", MILLIS, 5, "wrong_type", "field x: found timestamp-millis 5, expected string"),
    ("boolean", "int", 1, "wrong_type", "field x: found int 1, expected boolean"),
    ("number", "boolean", True, "wrong_type", "field x: found boolean true, expected number"),
    ("number", "bytes", b"\1", "wrong_type", "field x: found bytes of 1 bytes, expected number"),
    ("number", "double", float("nan"), "bad_number", "field x: found double nan, not a finite number"),
    ("number", "float", float("-inf"), "bad_number", "field x: found float -inf, not a finite number"),
    ("number", DECIMAL, Decimal("12345678901234567.89"), "bad_number",
     "field x: found decimal 12345678901234567.89, with more digits than a 64-bit float holds exactly"),
    ("timestamp", MILLIS, 2**62, "time_out_of_range",
     "field x: found timestamp-millis 4611686018427387904, expected years 1 to 9999"),
    ("timestamp", {"type": "int", "logicalType": "date"}, 2**31 - 1, "time_out_of_range",
     "field x: found date 2147483647, expected years 1 to 9999"),
    ("timestamp", {"type": "int", "logicalType": "time-millis"}, 5, "wrong_type",
     "field x: found time-millis 5, expected timestamp"),
    ("timestamp", "double", float("nan"), "bad_number", "field x: found double nan, not a finite number"),
    ("timestamp", "string", "yesterday", "bad_time",
     'field x: found string "yesterday", expected a time such as 2026-01-31T09:30:00.000Z'),
    ("[string]", "string", "a", "wrong_type", 'field x: found string "a", expected a list of string'),
    ("[string]", {"type": "array", "items": ["null", "string"]}, ["a", None], "wrong_type",
     "field x: found null, expected a list of string"),
    ("[integer]", {"type": "array", "items": "null"}, [None] * 9, "wrong_type",
     "field x: found null, expected a list of integer"),
    ("{lat: number?}", "string", "a", "wrong_type", 'field x: found string "a", expected an object'),
    ("{lat: {deep: number?}}", PLACE, {"lat": 1.5, "lon": 1}, "wrong_type",
     "field x.lat: found double 1.5, expected an object"),
    ("string", PLACE, {"lat": 1.5, "lon": 1}, "wrong_type", "field x: found a record, expected string"),
]
# fmt: on


@pytest.mark.parametrize(("kind", "schema", "value", "reason", "detail"), REFUSED)
def test_what_does_not_fit(kind: str, schema: Json, value: Json, reason: str, detail: str) -> None:
    kind = kind if kind.startswith("{") else f'"{kind}"'
    if isinstance(value, int) and isinstance(schema, dict):  # as fastavro takes numbers that are no times
        plain = {**schema}
        plain.pop("logicalType")
        raw = written(record_schema(("x", plain)), {"id": "p1", "event_time": 1_000, "x": value})
        found = outcome(decoded(layout_of(f"x: {kind}"), [raw], {ID: node(record_schema(("x", schema)))}))
    else:
        found = one(layout_of(f"x: {kind}"), record_schema(("x", schema)), {"x": value})
    assert found == (reason, f"{detail}; by schema 7")


def test_nested_records_and_maps_are_objects() -> None:
    layout = layout_of('location: {lat: "number?", lon: "number?"}, labels: {a: "string?", b: "string?"}')
    schema = record_schema(("location", ["null", PLACE]), ("labels", {"type": "map", "values": ["null", "string"]}))
    more = {"location": {"lat": None, "lon": 0.5}, "labels": {"b": "x", "c": None, "d": "y"}}
    plain = {"id": "p1", "event_time": 1_000}
    expected: dict[str, Any] = {"location.lat": None, "location.lon": 0.5, "labels.a": None, "labels.b": "x"}
    assert one(layout, schema, more) == plain | expected
    absent = expected | {"location.lon": None, "labels.b": None}
    assert one(layout, schema, {"location": None, "labels": {}}) == plain | absent


def test_what_the_stream_does_not_declare_is_passed_over_whatever_it_is() -> None:
    ring = {"type": "record", "name": "Ring", "fields": [{"name": "next", "type": ["null", "Ring"]}]}
    extra = {"type": "array", "items": {"type": "map", "values": ["null", "double", ring]}}
    schema = record_schema(("first", extra), ("x", "long"), ("last", {"type": "fixed", "name": "F", "size": 3}))
    value = {"first": [{}, {"k": 1.5, "l": None, "m": {"next": {"next": None}}}], "x": 5, "last": b"abc"}
    assert one(layout_of("x: integer"), schema, value) == {"id": "p1", "event_time": 1_000, "x": 5}


def test_a_missing_field_is_null_where_it_may_be() -> None:
    assert one(layout_of('x: "integer?"'), record_schema(), {}) == {"id": "p1", "event_time": 1_000, "x": None}
    reported = ("missing_field", "field x is missing or null, expected integer; by schema 7")
    assert one(layout_of("x: integer"), record_schema(), {}) == reported


@pytest.mark.parametrize(
    ("declared", "unit", "schema", "value", "expected"),
    [
        ("integer", "ms", MICROS, 1_234_567, 1_234),
        ("integer", "us", MILLIS, 1_234, 1_234_000),
        ("integer", "s", MILLIS, 1_999, 1),
        ("integer", "ms", "long", 1_234, 1_234),
        ("number", "s", MILLIS, 1_250, 1.25),
        ("timestamp", "s", MICROS, 1_234_567, 1_234),
    ],
)
def test_a_time_has_the_unit_that_its_schema_says(
    declared: str, unit: str, schema: Json, value: int, expected: float
) -> None:
    """A stream declares the unit for writers that do not."""
    layout = layout_of(f"event_time: {declared}", f"{{field: event_time, unit: {unit}}}")
    found = one(layout, record_schema(("event_time", schema)), {"event_time": value})
    assert found == {"id": "p1", "event_time": expected}


def test_two_versions_and_a_third_that_does_not_fit_in_one_topic() -> None:
    layout = layout_of('amount: integer, device: "string?"')
    schemas = {
        1: record_schema(("amount", "long")),
        2: record_schema(("device", ["null", "string"]), ("amount", "int"), ("note", "string")),
        3: record_schema(("amount", "string")),
    }
    base = {"id": "p1", "event_time": 1_000}
    values = [
        written(schemas[1], {**base, "amount": 5}, 1),
        written(schemas[2], {**base, "device": "d", "amount": 6, "note": "n"}, 2),
        written(schemas[3], {**base, "amount": "7"}, 3),
        written(schemas[1], {**base, "amount": 8}, 4),
        written(schemas[1], {**base, "amount": 9}, 5),
        None,
        b"",
        b'{"id":"p1"}',
        b"\0\0\0",
        written(schemas[1], {**base, "amount": 10}, 1),
    ]
    known = {number: node(schema) for number, schema in schemas.items()}
    found = decoded(layout, values, {**known, 4: "found schema 4, which the registry does not know"})
    assert found.records.fields["amount"].to_pylist() == [5, 6, 10]
    assert found.records.fields["device"].to_pylist() == [None, "d", None]
    assert found.records.offsets.tolist() == [10, 11, 19]
    header = "expected the byte 0, the number of a schema in four, and the record"
    nothing = ("malformed_avro", "found nothing, expected the byte 0 and the number of a schema")
    assert [(letter.reason, letter.detail) for letter in found.dead] == [
        ("wrong_type", 'field amount: found string "7", expected integer; by schema 3'),
        ("unknown_schema", "found schema 4, which the registry does not know"),
        ("unknown_schema", "the registry knows no schema 5"),
        nothing,
        nothing,
        ("malformed_avro", f"found a value that begins with byte 0x7b, {header}"),
        ("malformed_avro", f"found 3 bytes, {header}"),
    ]
    assert found.dead[0].raw == values[2]
    assert [letter.record_id for letter in found.dead] == ["p1", *[None] * 6]


def test_a_value_that_is_no_record() -> None:
    layout = layout_of("x: integer")
    raw = b"\0\0\0\0\7" + b"\4ab"
    reported = ("not_an_object", 'found string "ab", expected a record; by schema 7')
    assert outcome(decoded(layout, [raw], {ID: node("string")})) == reported
    schema = ["null", record_schema(("x", "long"))]
    fields = {"id": "p1", "event_time": 1_000, "x": 5}
    assert outcome(decoded(layout, [written(schema, fields)], {ID: node(schema)})) == fields


def test_a_record_that_is_too_long() -> None:
    schema = record_schema(("x", "string"))
    raw = written(schema, {"id": "p1", "event_time": 1_000, "x": "a" * 9_000})
    found = decoded(layout_of("x: string"), [raw], {ID: node(schema)}, line_bytes_max=5_000)
    (letter,) = found.dead
    assert (letter.reason, letter.detail) == ("line_too_long", f"found {len(raw)} bytes, expected at most 5000")
    assert letter.raw == raw[:4_096]


def test_a_time_far_ahead() -> None:
    import numpy as np  # noqa: PLC0415

    schema = record_schema()
    raw = written(schema, {"id": "p1", "event_time": 10_000_000})
    known = np.array([1_000], np.int64)
    (letter,) = decoded(layout_of('x: "string?"'), [raw], {ID: node(schema)}, known_ms=known).dead
    assert letter.reason == "time_in_future"
