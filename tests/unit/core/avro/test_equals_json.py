"""Records of Avro become what the same records of JSON become, and what fastavro itself reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossline.core.avro.document import document
from crossline.core.decode import decode_values

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
