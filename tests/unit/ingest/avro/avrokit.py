"""Values in the registry's wire format, written by fastavro, and what comes of them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from crossline.basics.streams.schema import load_streams
from crossline.ingest.avro.records import decode_avro
from crossline.ingest.avro.schema import Node, read_schema
from crossline.ingest.decode import Decoded, RecordLayout, make_layout

Json = Any
ID = 7


def layout_of(fields: str, event: str = "{field: event_time, unit: ms}") -> RecordLayout:
    """A stream of ``id``, ``event_time`` and ``fields`` (as YAML)."""
    own = "" if "event_time" in fields else ", event_time: integer"
    text = f"""
schema_version: 1
streams:
  payments:
    format: avro
    id: id
    event_time: {event}
    fields: {{id: string{own}, {fields}}}
"""
    return make_layout("payments", load_streams(text, "stream.yaml")["payments"])


def record_schema(*fields: Json, name: str = "Payment") -> dict[str, Json]:
    """A record of ``id``, ``event_time`` and ``fields``, each ``(name, type)``."""
    given = (("id", "string"), ("event_time", "long"), *fields)
    last = dict(given)
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in last.items()]}


def written(schema: Json, value: Json, number: int = ID) -> bytes:
    """A value as a producer sends it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def node(*schemas: Json) -> Node:
    """A schema, behind those that it refers to."""
    return read_schema([json.dumps(each) for each in schemas])


def decoded(
    layout: RecordLayout, values: Sequence[bytes | None], schemas: Mapping[int, Node | str], **more: Any
) -> Decoded:
    """What comes of values at offsets 10, 11 and on: the same, whether the kernel reads what it can or nothing."""
    offsets = np.arange(10, 10 + len(values), dtype=np.int64)
    given = (layout, pa.array(values, pa.binary()), "topic-0", offsets, None, schemas)
    quick, slow_path = decode_avro(*given, **more), decode_avro(*given, **more, quick=False)
    assert quick.dead == slow_path.dead
    assert quick.records.ids.equals(slow_path.records.ids)
    assert quick.records.event_ms.tolist() == slow_path.records.event_ms.tolist()
    assert quick.records.offsets.tolist() == slow_path.records.offsets.tolist()
    for name, column in slow_path.records.fields.items():
        assert quick.records.fields[name].equals(column), name
    return quick


def one(layout: RecordLayout, schema: Json, fields: Mapping[str, Json]) -> dict[str, Json] | tuple[str, str]:
    """The columns of one record, or the reason and detail of its dead letter."""
    value = written(schema, {"id": "p1", "event_time": 1_000, **fields})
    return outcome(decoded(layout, [value], {ID: node(schema)}))


def outcome(found: Decoded) -> dict[str, Json] | tuple[str, str]:
    """Of one value."""
    if found.dead:
        (letter,) = found.dead
        assert len(found.records.ids) == 0
        return letter.reason, letter.detail
    return {name: column.to_pylist()[0] for name, column in found.records.fields.items()}
