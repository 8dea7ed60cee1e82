"""Records of Avro become what the same records of JSON become, and what fastavro itself reads."""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossline.ingest.avro.document import document
from crossline.ingest.decode import decode_values

from .avrokit import ID, decoded, layout_of, node, record_schema, written

LAYOUT = layout_of(
    'name: "string?", count: integer, share: "number?", ok: boolean, at: "timestamp?", tags: "[string]?", '
    'sizes: "[integer]", place: {lat: "number?", city: {name: "string?"}}'
)
CITY = {"type": "record", "name": "City", "fields": [{"name": "name", "type": ["null", "string"]}]}
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "lat", "type": ["null", "double"]}, {"name": "city", "type": ["null", CITY]}],
}
SCHEMA = record_schema(
    ("name", ["null", "string"]),
    ("count", "long"),
    ("share", ["null", "double"]),
    ("more", {"type": "map", "values": ["null", "long", "string"]}),
    ("ok", "boolean"),
    ("at", ["null", "long"]),
    ("tags", ["null", {"type": "array", "items": "string"}]),
    ("sizes", {"type": "array", "items": "long"}),
    ("place", ["null", PLACE]),
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LONG = st.integers(-(2**63), 2**63 - 1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "id": TEXT,
            "event_time": st.integers(0, 7 * 10**12) | LONG,
            "name": st.none() | TEXT,
            "count": LONG,
            "share": st.none() | DOUBLE,
            "more": st.dictionaries(TEXT, st.none() | LONG | TEXT, max_size=2),
            "ok": st.booleans(),
            "at": st.none() | st.integers(-(10**13), 10**13),
            "tags": st.none() | st.lists(TEXT, max_size=3),
            "sizes": st.lists(LONG, max_size=3),
            "place": st.none()
            | st.fixed_dictionaries(
                {"lat": st.none() | DOUBLE, "city": st.none() | st.fixed_dictionaries({"name": st.none() | TEXT})}
            ),
        }
    ),
    max_size=6,
)


@given(records=RECORDS)
def test_avro_is_json(records: list[dict[str, Any]]) -> None:
    avro = decoded(LAYOUT, [written(SCHEMA, each) for each in records], {ID: node(SCHEMA)})
    texts = pa.array([json.dumps(each).encode() for each in records], pa.binary())
    plain = decode_values(LAYOUT, texts, "topic-0", np.arange(10, 10 + len(records), dtype=np.int64), None)
    assert [(each.reason, each.offset) for each in avro.dead] == [(each.reason, each.offset) for each in plain.dead]
    assert avro.records.offsets.tolist() == plain.records.offsets.tolist()
    assert avro.records.event_ms.tolist() == plain.records.event_ms.tolist()
    assert avro.records.ids.equals(plain.records.ids)
    for name, column in plain.records.fields.items():
        assert avro.records.fields[name].equals(column), name


@given(records=RECORDS)
def test_a_whole_record_is_what_was_written(records: list[dict[str, Any]]) -> None:
    schemas = {ID: node(SCHEMA)}
    assert [document(schemas, written(SCHEMA, each)) for each in records] == records


NUMBERS = layout_of(
    "event_time: integer, sum: number, count: integer, share: number, kind: string, day: timestamp, at: timestamp, "
    'flag: "boolean?"',
    "{field: event_time, unit: ms}",
)
LOGICAL = record_schema(
    ("event_time", {"type": "long", "logicalType": "timestamp-micros"}),
    ("sum", {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 4}),
    ("count", {"type": "fixed", "name": "F", "size": 9, "logicalType": "decimal", "precision": 21, "scale": 1}),
    ("share", "float"),
    ("kind", ["null", {"type": "enum", "name": "E", "symbols": ["A", "GREEN", "C"]}, "string", "long"]),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at", {"type": "long", "logicalType": "timestamp-nanos"}),
    ("flag", ["boolean", "null"]),
)
# As fastavro takes numbers of any size: without their logical types.
NINE = {"type": "fixed", "name": "F", "size": 9}
OTHERS = {"event_time": "long", "sum": "bytes", "count": NINE, "day": "int", "at": "long"}
PLAIN = record_schema(*((each["name"], OTHERS.get(each["name"], each["type"])) for each in LOGICAL["fields"]))
WHOLE = st.integers(-(10**16), 10**16) | st.integers(-(2**70), 2**70)


@given(
    event=st.integers(0, 8 * 10**15) | LONG,
    total=WHOLE,
    count=WHOLE,
    share=st.floats(width=32),
    kind=st.none() | st.sampled_from(["A", "GREEN", "C", "other", "é"]) | LONG,
    day=st.integers(-(2**31), 2**31 - 1),
    at=LONG,
    flag=st.none() | st.booleans(),
)
def test_what_json_has_not(
    event: int, total: int, count: int, share: float, kind: str | int | None, day: int, at: int, flag: bool | None
) -> None:
    """Whatever they are: as the definition says, in the kernel and in the slow path (see ``decoded``)."""
    names = [field["name"] for field in LOGICAL["fields"]]
    given = dict(zip(names, ["p1", event, b"", b"", share, kind, day, at, flag], strict=True))
    given["sum"] = total.to_bytes(10, "big", signed=True)
    given["count"] = count.to_bytes(9, "big", signed=True)
    found = decoded(NUMBERS, [written(PLAIN, given)], {ID: node(LOGICAL)})
    near = float(Decimal(total).scaleb(-4, Context(prec=60)))
    exact = Decimal(repr(near)) == Decimal(total) / 10**4 if abs(total) < 10**16 else None
    fits = count % 10 == 0 and abs(count // 10) < 2**63 and isinstance(kind, str) and math.isfinite(share)
    fits = fits and abs(day) < 700_000 and 0 <= event // 1_000 < 7_258_118_400_000
    if not fits or exact is False:
        assert found.dead
    elif exact:
        columns = {name: column.to_pylist()[0] for name, column in found.records.fields.items()}
        assert columns == {
            "id": "p1", "event_time": event // 1_000, "sum": near, "count": count // 10, "share": share,
            "kind": kind, "day": day * 86_400_000, "at": at // 1_000_000, "flag": flag,
        }  # fmt: skip
