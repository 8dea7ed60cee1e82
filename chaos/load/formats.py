"""The formats of records: JSON, or Avro in the registry's wire format, with schemas that change during the drill."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

import fastavro
import orjson

from chaos.pipeline import ID, TOPIC

Body = dict[str, Any]
# What a value is in place of the record, and the reason that its dead letter must have.
Poison = tuple[str, bytes | None]

DAY_MS = 86_400_000
HEADER = b"\0"  # then the number of the schema in four bytes, then the record
UNKNOWN_SCHEMA = 999_999
ANSWER_S_MAX = 60.0
_AVRO_FIELDS: list[Body] = [
    {"name": ID, "type": "string"},
    {"name": "account", "type": "string"},
    {"name": "amount", "type": ["null", "long"], "default": None},
    {"name": "kind", "type": "string"},
    {"name": "event_time", "type": "long"},
]


class Format(Protocol):
    """A format of records."""

    name: str

    def encode(self, body: Body) -> bytes:
        """The value of a message."""

    def decode(self, value: bytes) -> Body:
        """The record in a message."""

    def poisons(self, body: Body) -> tuple[Poison, ...]:
        """Damaged variants of the record."""

    def evolve(self) -> Callable[[], object]:
        """Another schema, if there are schemas; what is given back has records written by it from then on."""


class Json:
    """One JSON document per message."""

    name = "json"

    def encode(self, body: Body) -> bytes:
        """The value of a message."""
        return orjson.dumps(body)

    def decode(self, value: bytes) -> Body:
        """The record in a message."""
        return dict(orjson.loads(value))

    def poisons(self, body: Body) -> tuple[Poison, ...]:
        """Damaged variants of the record."""
        whole = orjson.dumps(body)
        without = {name: value for name, value in body.items() if name != "amount"}
        return (
            ("malformed_json", whole[: len(whole) // 2]),
            ("malformed_json", b"[" * 100_000),
            ("tombstone", None),
            ("malformed_json", b""),
            ("bad_encoding", whole[:-1] + b', "note": "\xff"}'),
            ("wrong_type", orjson.dumps({**body, "amount": "12"})),
            ("wrong_type", orjson.dumps({**body, "account": ["x" * 300_000]})),
            ("missing_field", orjson.dumps(without)),
            ("time_in_future", orjson.dumps({**body, "event_time": body["event_time"] + DAY_MS})),
        )

    def evolve(self) -> Callable[[], object]:
        """JSON has no schemas."""
        return lambda: None


@dataclass(slots=True)
class Avro:
    """By schemas of the ``registry``, whose address is the direct one; ``schemas``: by their numbers there."""

    registry: str
    name: str = "avro"
    schemas: dict[int, Any] = field(default_factory=dict)
    _now: tuple[bytes, Any] = (b"", None)

    def encode(self, body: Body) -> bytes:
        """The value of a message, by the newest schema."""
        head, schema = self._now
        out = io.BytesIO()
        out.write(head)
        fastavro.schemaless_writer(out, schema, body)
        return out.getvalue()

    def decode(self, value: bytes) -> Body:
        """What stands in it, by the schema that it was written by."""
        found: Any = fastavro.schemaless_reader(
            io.BytesIO(value[5:]), self.schemas[int.from_bytes(value[1:5], "big")], None
        )
        return dict(found)

    def poisons(self, body: Body) -> tuple[Poison, ...]:
        """Damaged variants of the record."""
        whole = self.encode(body)
        return (
            ("malformed_avro", whole[: len(whole) // 2]),
            ("malformed_avro", orjson.dumps(body)),
            ("malformed_avro", b"[" * 100_000),
            ("malformed_avro", whole[:5] + b"\xff" * 300_000),
            ("malformed_avro", b""),
            ("tombstone", None),
            ("unknown_schema", HEADER + UNKNOWN_SCHEMA.to_bytes(4, "big") + whole[5:]),
            ("missing_field", self.encode({**body, "amount": None})),
            ("time_in_future", self.encode({**body, "event_time": body["event_time"] + DAY_MS})),
        )

    def evolve(self) -> Callable[[], object]:
        """The next schema has an optional field more, and lacks that of the one before."""
        version = len(self.schemas)
        added: list[Body] = [{"name": f"note_{version}", "type": ["null", "string"], "default": None}]
        schema = {"type": "record", "name": "Payment", "fields": [*_AVRO_FIELDS, *(added if version else [])]}
        number = registered(self.registry, f"{TOPIC}-value", schema)
        self.schemas[number] = fastavro.parse_schema(schema)
        return partial(self._use, number)

    def _use(self, number: int) -> None:
        self._now = HEADER + number.to_bytes(4, "big"), self.schemas[number]


def registered(registry: str, subject: str, schema: Mapping[str, Any]) -> int:
    """Register the schema under ``subject``; returns its id."""
    address = urlsplit(registry)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_S_MAX)
    try:
        body, kind = json.dumps({"schema": json.dumps(schema)}), "application/vnd.schemaregistry.v1+json"
        connection.request("POST", f"{address.path}/subjects/{subject}/versions", body, {"Content-Type": kind})
        answer = connection.getresponse()
        reply = answer.read()
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"the registry answers {answer.status}: {reply.decode(errors='replace')[:500]}")
    return int(json.loads(reply)["id"])
