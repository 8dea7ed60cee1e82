"""Hostile bytes and schemas: a dead letter each, and never an end of the batch."""

from __future__ import annotations

import random
from typing import Any

import pytest

from crossline.ingest.avro.binary import DEPTH_MAX
from crossline.ingest.avro.document import document
from crossline.ingest.avro.schema import SchemaError, read_schema
from crossline.ingest.decode import REASONS

from .avrokit import ID, Json, decoded, layout_of, node, outcome, record_schema, written

HEAD = b"\0" + ID.to_bytes(4, "big")
PLAIN = b"\4p1" + b"\xd0\x0f"  # id p1, event_time 1000
HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2^63 - 1
ENDS = "the bytes end at byte"
RING = {"type": "record", "name": "Ring", "fields": [{"name": "next", "type": ["null", "Ring"]}]}


# fmt: off
BROKEN: list[tuple[Json, bytes, str]] = [
    ("string", b"", f"{ENDS} 10 within a number"),
    ("string", b"\x0aab", "found a length of 5 at byte 11, where 2 bytes are left"),
    ("string", b"\x09abcdef", "found a length of -5 at byte 11, where 6 bytes are left"),
    ("string", HUGE, "found a length of 9223372036854775807 at byte 20, where 0 bytes are left"),
    ("long", b"\xff" * 11 + b"\1", "a number of more than 10 bytes at byte 11"),
    ("long", b"\xff" * 9 + b"\x7f", "a number of more than 64 bits at byte 11"),
    ("long", b"\xff" * 9, f"{ENDS} 19 within a number"),
    ("int", b"\x80\x80\x80\x80\x10", "found 2147483648, which is no int"),
    ("boolean", b"\2", "found 2, which is no boolean"),
    ("double", b"\0" * 7, "found a length of 8 at byte 10, where 7 bytes are left"),
    ("float", b"", "found a length of 4 at byte 10, where 0 bytes are left"),
    (["null", "long"], b"\4", "found branch 2 of a union of 2 types"),
    (["null", "long"], b"\1", "found branch -1 of a union of 2 types"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\1", "found symbol -1 of an enum of 2"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\4", "found symbol 2 of an enum of 2"),
    ({"type": "fixed", "name": "F", "size": 2**30}, b"ab",
     "found a length of 1073741824 at byte 10, where 2 bytes are left"),
    ({"type": "array", "items": "long"}, HUGE,
     "found 9223372036854775807 items at byte 20, where 0 bytes are left"),
    ({"type": "array", "items": "long"}, b"\x04\2\2", f"{ENDS} 13 within a number"),
    ({"type": "array", "items": "long"}, b"\x01\x7f\2", "found a block of -64 bytes at byte 12, of 13"),
    ({"type": "map", "values": "null"}, HUGE,
     "found 9223372036854775807 items at byte 20, where 0 bytes are left"),
    ({"type": "map", "values": "long"}, b"\2\xfe\x01", "found a length of 127 at byte 13, where 0 bytes are left"),
]
# fmt: on


@pytest.mark.parametrize(("schema", "raw", "text"), BROKEN)
@pytest.mark.parametrize("declared", [True, False])
def test_bytes_that_do_not_fit(schema: Json, raw: bytes, text: str, declared: bool) -> None:
    """Whether anybody wants the field or not."""
    kind = "[integer?]" if isinstance(schema, dict) and schema["type"] in {"array", "map"} else "string?"
    layout = layout_of(f'x: "{kind}"' if declared else 'y: "string?"')
    schemas = {ID: node(record_schema(("x", schema)))}
    assert outcome(decoded(layout, [HEAD + PLAIN + raw], schemas)) == (
        "malformed_avro",
        f"field x: {text}; by schema 7",
    )
    assert document(schemas, HEAD + PLAIN + raw) is None


def test_a_field_deep_inside_is_named() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "a", "type": {"type": "array", "items": "boolean"}}]}
    schema = node(record_schema(("x", ["null", inner])))
    reason, detail = outcome(decoded(layout_of("x: {a: '[boolean]'}"), [HEAD + PLAIN + b"\2\2\5"], {ID: schema}))
    assert (reason, detail) == ("malformed_avro", "field x.a: found 5, which is no boolean; by schema 7")


def test_bytes_behind_the_record() -> None:
    found = outcome(decoded(layout_of('y: "string?"'), [HEAD + PLAIN + b"\0\0"], {ID: node(record_schema())}))
    assert found == ("malformed_avro", "found 2 bytes behind the record; by schema 7")


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "N", "fields": []}])
def test_a_list_of_things_without_bytes_has_any_length(items: Json) -> None:
    schema = node(record_schema(("x", {"type": "array", "items": items}), ("y", "long")))
    values = [HEAD + PLAIN + HUGE + b"\0" + b"\6"]
    assert outcome(decoded(layout_of("y: integer"), values, {ID: schema})) == {
        "id": "p1",
        "event_time": 1_000,
        "y": 3,
    }
    reason, _ = outcome(decoded(layout_of('x: "[string]"'), values, {ID: schema}))
    assert reason == "wrong_type"
    assert document({ID: schema}, values[0]) == {"id": "p1", "event_time": 1_000, "x": [None], "y": 3}


@pytest.mark.parametrize("layout", [layout_of('y: "string?"'), layout_of("x: {next: {next: 'string?'}}")])
def test_records_in_records_without_end(layout: Any) -> None:
    """A million levels in a megabyte."""
    schemas = {ID: node(record_schema(("x", RING)))}
    deep = HEAD + PLAIN + b"\2" * 1_000_000 + b"\0"
    reason, detail = outcome(decoded(layout, [deep], schemas))
    assert reason == "malformed_avro"
    assert f"nested deeper than {DEPTH_MAX} levels" in detail
    assert document(schemas, deep) is None


def test_a_record_that_lies_in_itself_has_no_bytes() -> None:
    """It cannot be written at all."""
    endless = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    schemas = {ID: node(record_schema(("x", endless)))}
    assert outcome(decoded(layout_of('y: "string?"'), [HEAD + PLAIN], schemas)) == {
        "id": "p1",
        "event_time": 1_000,
        "y": None,
    }


def test_records_within_records_by_the_power_of_two() -> None:
    kinds: list[Json] = [{"type": "record", "name": "R0", "fields": []}]
    for number in range(1, 200):
        fields = [{"name": name, "type": f"R{number - 1}"} for name in "ab"]
        kinds.append({"type": "record", "name": f"R{number}", "fields": fields})
    schema = node(*kinds, record_schema(("x", "R199")))
    for layout in (layout_of('y: "string?"'), layout_of('x: "string?"')):
        decoded(layout, [HEAD + PLAIN], {ID: schema})
    assert document({ID: schema}, HEAD + PLAIN) == {"id": "p1", "event_time": 1_000, "x": None}


def test_a_decimal_of_a_megabyte() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 5_000_000, "scale": 2}
    schema = node(record_schema(("x", kind)))
    raw = HEAD + PLAIN + b"\x80\x80\x40" + b"\x7f" * 524_288
    for declared in ("number", "integer"):
        found = outcome(decoded(layout_of(f"x: {declared}"), [raw], {ID: schema}))
        assert found == (
            "bad_number",
            "field x: found decimal of 524288 bytes, expected 1 to 64 bytes of digits; by schema 7",
        )
    whole = document({ID: schema}, raw)
    assert whole is not None
    assert whole["x"] == b"\x7f" * 524_288
    empty = HEAD + PLAIN + b"\0"
    assert outcome(decoded(layout_of("x: number"), [empty], {ID: schema}))[0] == "bad_number"


def test_text_that_is_none() -> None:
    layout, schema = layout_of("x: string"), node(record_schema(("x", "string")))
    found = outcome(decoded(layout, [HEAD + PLAIN + b"\6a\xffb"], {ID: schema}))
    assert found == ("bad_encoding", "field x: found byte 0xff at byte 2, expected UTF-8; by schema 7")
    (letter,) = decoded(layout, [HEAD + b"\2\xff\xd0\x0f\2a"], {ID: schema}).dead
    assert (letter.reason, letter.record_id) == ("bad_encoding", None)


def test_a_key_twice_in_a_map() -> None:
    schema = node(record_schema(("x", {"type": "map", "values": "long"})))
    twice = HEAD + PLAIN + b"\4\2a\2\2a\4\0"
    reason, detail = outcome(decoded(layout_of('x: {a: "integer?"}'), [twice], {ID: schema}))
    assert (reason, detail) == ("malformed_avro", "field x: key a stands twice in a map; by schema 7")


def test_anything_becomes_a_record_or_a_dead_letter() -> None:
    """Records of every kind of type, cut, changed and stirred: of each, one of the two comes."""
    draw = random.Random(20_261_122)
    place = {"type": "record", "name": "P", "fields": [{"name": "lat", "type": ["null", "double"]}]}
    kinds = [
        *(("a", ["null", "string"]), ("b", {"type": "array", "items": ["long", "null"]}), ("c", place)),
        *(("d", {"type": "map", "values": place["name"]}), ("e", {"type": "bytes", "logicalType": "decimal"})),
        *(("f", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), ("g", RING), ("h", "float")),
    ]
    schema = record_schema(*kinds)
    fields = 'a: "string?", b: "[integer]?", c: {lat: "number?"}, d: {k: {lat: "number?"}}, f: string, h: number'
    values = []
    for number in range(400):
        rest = {"a": "x" * draw.randrange(9), "b": [number, 1], "c": {"lat": 0.5}, "d": {"k": {"lat": None}}}
        rest |= {"e": b"\1", "f": "B", "g": {"next": {"next": None}}, "h": 0.25}
        raw = bytearray(written(schema, {"id": f"p{number}", "event_time": number, **rest}))
        for _ in range(draw.choice([0, 1, 1, 2, 5])):
            raw[draw.randrange(5, len(raw))] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        values.append(bytes(raw[: draw.choice([len(raw), len(raw), draw.randrange(len(raw))])]))
    found = decoded(layout_of(fields), values, {ID: node(schema)})
    offsets = sorted([*found.records.offsets.tolist(), *(letter.offset for letter in found.dead)])
    assert offsets == list(range(10, 410))
    assert {letter.reason for letter in found.dead} <= set(REASONS)
    assert len({letter.reason for letter in found.dead}) >= 4
    assert len(found.records.offsets) > 50
    assert [letter.raw for letter in found.dead] == [values[letter.offset - 10] for letter in found.dead]


# fmt: off
NO_SCHEMAS = [
    ("{", "its text is no JSON"),
    ("[" * 100_000, "its text is no JSON"),
    ('["null",' * 210 + '"long"' + "]" * 210, "nested deeper than 200"),
    ('"nope"', "names the type nope"),
    ('{"type": "array"}', "an array in it has no items"),
    ('["null", ["null"]]', "a union in it is empty, or holds a union"),
    ("[]", "a union in it is empty"),
    ("5", "found 5, expected a type"),
    ('{"type": "record", "name": "r"}', "no fields"),
    ('{"type": "record", "fields": []}', "no name"),
    ('{"type": "record", "name": "r", "fields": [{"name": "a"}]}', "expected a field"),
    ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
     "with a name of its own"),
    ('{"type": "fixed", "name": "f", "size": -4}', "found the size -4 of a fixed"),
    ('{"type": "fixed", "name": "f", "size": true}', "found the size true of a fixed"),
    ('{"type": "enum", "name": "e", "symbols": [1]}', "no list of symbols"),
    ('["null", {"type": "enum", "name": "e", "symbols": []}, {"type": "enum", "name": "e", "symbols": []}]',
     "declares e twice"),
]
# fmt: on


@pytest.mark.parametrize(("text", "message"), NO_SCHEMAS)
def test_schemas_that_are_none(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_schema([text])


def test_names_in_namespaces() -> None:
    given = {
        "type": "record", "name": "x.y.Out", "fields": [
            {"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "b", "type": "E"},
            {"name": "c", "type": ["null", "x.y.Out"]},
            {"name": "d", "type": {"type": "record", "name": "In", "namespace": "z", "fields": [
                {"name": "e", "type": {"type": "fixed", "name": "F", "size": 1}}, {"name": "f", "type": "z.F"}]}},
        ],
    }  # fmt: skip
    fields = dict(node(given).fields)
    assert fields["b"] is fields["a"]
    assert [str(each) for each in fields["c"].inner] == ["null", "record"]
    inner = dict(fields["d"].fields)
    assert inner["f"] is inner["e"]
    other = {"type": "record", "name": "Ref", "namespace": "x.y", "fields": [{"name": "o", "type": "Out"}]}
    assert dict(node(given, other).fields)["o"].kind == "record"


def test_a_logical_type_that_does_not_fit_is_passed_over() -> None:
    for kind in (
        {"type": "string", "logicalType": "timestamp-millis"},
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 9},
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "fixed", "name": "F", "size": 3, "logicalType": "uuid"},
        {"type": "long", "logicalType": ["date"]},
    ):
        assert node(kind).logical == ""
