"""Generated records as Avro in the registry's wire format."""

from __future__ import annotations

import io
import json
from typing import Any

import orjson
import pyarrow as pa
from fastavro import parse_schema, schemaless_writer

from crossline.generate.kafka import KafkaTarget
from crossline.generate.source import Workload

NAME = "Payment"
_KINDS = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean"}


def avro_schema(workload: Workload) -> str:
    """The schema of a workload's records, as text; each field may be null, so that later versions may do without it."""
    return json.dumps(_record(NAME, workload.records(0, 1).schema))


def _record(name: str, fields: Any) -> dict[str, Any]:
    made = [{"name": each.name, "type": ["null", _kind(each)], "default": None} for each in fields]
    return {"type": "record", "name": name, "fields": made}


def _kind(field: pa.Field) -> Any:
    if pa.types.is_struct(field.type):
        return _record(f"{NAME}_{field.name}", field.type)
    return _KINDS[field.type]


class AvroTarget(KafkaTarget):
    """As ``KafkaTarget``; ``number``: that of ``schema`` in the registry."""

    def __init__(
        self, brokers: str, topic: str, schema: str, number: int, settings: dict[str, Any] | None = None
    ) -> None:
        super().__init__(brokers, topic, settings)
        self._schema = parse_schema(json.loads(schema))
        self._head = b"\0" + number.to_bytes(4, "big")

    def value(self, line: bytes) -> bytes:
        """The record of a JSON line."""
        out = io.BytesIO()
        out.write(self._head)
        schemaless_writer(out, self._schema, orjson.loads(line))
        return out.getvalue()
