"""A record as JSON, as far as it can be read: for people who mend it. ``writing`` makes bytes of such JSON again."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from crossline.ingest.avro.binary import DEPTH_MAX, MalformedError, Walk
from crossline.ingest.avro.schema import Node
from crossline.ingest.avro.wire import HEADER_BYTES, schema_id

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_MICRO = {"millis": 1_000, "micros": 1}  # microseconds of a unit
DECIMAL_BYTES_MAX = 64


@dataclass(frozen=True, slots=True)
class Viewed:
    """``record``: what was read, None where nothing could be. ``schema``: the number that the value names.

    ``broke``: why no more was read, empty where all was; ``read``: how many bytes were.
    """

    schema: int | None
    record: dict[str, Any] | None
    broke: str
    read: int


def viewed(schemas: Mapping[int, Node | str], raw: bytes) -> Viewed:
    """The record in ``raw``, a value of the registry's wire format.

    Instants and dates are text of ISO 8601, decimals are text, bytes are hex, a number that is none is its name; what
    no such text can have (instants in ns, and those before year 1) stays a number.
    """
    number = schema_id(raw)
    if number is None:
        return Viewed(None, None, "it does not begin with the byte 0 and the number of a schema", 0)
    schema = schemas.get(number, f"nothing is known of schema {number}")
    if not isinstance(schema, Node):
        return Viewed(number, None, schema, HEADER_BYTES)
    walk, record = Walk(raw, HEADER_BYTES), dict[str, Any]()
    try:
        node = walk.branch(schema)
        if node.kind != "record":
            return Viewed(number, None, f"schema {number} is of {node}, expected a record", HEADER_BYTES)
        _fill(walk, node, record, 0)
        walk.finish()
    except MalformedError as error:
        return Viewed(number, record, str(error), min(walk.at, len(raw)))
    return Viewed(number, record, "", len(raw))


def _fill(walk: Walk, node: Node, into: dict[str, Any], depth: int) -> None:
    for name, inner in node.fields:
        try:
            _put(walk, inner, into.__setitem__, name, depth + 1)
        except MalformedError as error:
            error.path.insert(0, name)
            raise


def _put(walk: Walk, node: Node, put: Callable[[Any, Any], None], place: Any, depth: int) -> None:
    """Read a value and put it there; one that holds others is there before they are read."""
    if depth > DEPTH_MAX:
        raise MalformedError(f"records or lists are nested deeper than {DEPTH_MAX} levels")
    if not node.width:  # records of no bytes may lie in each other by the million
        put(place, {} if node.kind == "record" else None)
        return
    node = walk.branch(node)
    if node.kind in {"record", "map"}:
        held: dict[str, Any] = {}
        put(place, held)
        if node.kind == "record":
            _fill(walk, node, held, depth)
            return
        for count in walk.blocks(node):
            for _ in range(count):
                key = walk.take(walk.long()).decode("utf-8", "replace")
                _put(walk, node.inner[0], held.__setitem__, key, depth + 1)
    elif node.kind == "array":
        items: list[Any] = []
        put(place, items)
        for count in walk.blocks(node):
            for _ in range(count):
                _put(walk, node.inner[0], lambda _, item: items.append(item), None, depth + 1)
    else:
        put(place, _plain(node, walk.plain(node)))


def _plain(node: Node, value: Any) -> Any:  # noqa: PLR0911 - a way out for each type
    if node.kind == "string":
        return value.decode("utf-8", "replace")
    if node.kind == "enum":
        return node.symbols[value]
    if node.kind in {"float", "double"}:
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if node.logical == "uuid":
        return str(uuid.UUID(bytes=value))
    if node.logical == "decimal" and len(value) <= DECIMAL_BYTES_MAX:
        unscaled = int.from_bytes(value, "big", signed=True)
        return f"{Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -node.scale)):f}"
    if isinstance(value, bytes):
        return value.hex()
    return _time(node, value)


def _time(node: Node, value: Any) -> Any:
    unit = node.logical.rpartition("-")[2]
    try:
        if node.logical == "date":
            return (EPOCH + timedelta(days=value)).date().isoformat()
        if "timestamp" in node.logical and unit in PER_MICRO:
            at = EPOCH + timedelta(microseconds=value * PER_MICRO[unit])
            return at.replace(tzinfo=None).isoformat() + ("" if node.logical.startswith("local") else "Z")
    except OverflowError:
        return value
    return value
