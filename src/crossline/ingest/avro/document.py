"""A whole record as plain values, for people who look at it. It needs no decoder, which takes a second to load."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from crossline.ingest.avro.binary import DEPTH_MAX, MalformedError, Walk
from crossline.ingest.avro.schema import Node
from crossline.ingest.avro.wire import HEADER_BYTES, schema_id

DECIMAL_BYTES_MAX = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_MICRO = {"millis": 1_000, "micros": 1}


def document(schemas: Mapping[int, Node | str], raw: bytes) -> dict[str, Any] | None:
    """The record in ``raw``, a value of the registry's wire format; None where it is none that can be read.

    Instants are times, decimals are exact, and bytes stay bytes.
    """
    number = schema_id(raw)
    schema = None if number is None else schemas.get(number)
    if not isinstance(schema, Node):
        return None
    walk = Walk(raw, HEADER_BYTES)
    try:
        value = _value(walk, schema, 0)
        walk.finish()
    except MalformedError:
        return None
    return value if isinstance(value, dict) else None


def _value(walk: Walk, node: Node, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise MalformedError("nested too deep")
    node = walk.branch(node)
    if not node.width:  # records of no bytes may lie in each other by the million
        return None
    if node.kind == "record":
        return {name: _value(walk, inner, depth + 1) for name, inner in node.fields}
    if node.kind == "array":
        (item,) = node.inner
        return [_value(walk, item, depth + 1) for count in walk.blocks(node) for _ in range(count)]
    if node.kind == "map":
        (item,) = node.inner
        return {
            walk.take(walk.long()).decode("utf-8", "replace"): _value(walk, item, depth + 1)
            for count in walk.blocks(node)
            for _ in range(count)
        }
    return _plain(node, walk.plain(node))


def _plain(node: Node, value: Any) -> Any:  # noqa: PLR0911 - a way out for each type
    unit = node.logical.rpartition("-")[2]
    if node.kind == "string":
        return value.decode("utf-8", "replace")
    if node.kind == "enum":
        return node.symbols[value]
    if node.logical == "uuid":
        return str(uuid.UUID(bytes=value))
    if node.logical == "decimal" and len(value) <= DECIMAL_BYTES_MAX:
        unscaled = int.from_bytes(value, "big", signed=True)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -node.scale))
    try:
        if node.logical == "date":
            return _EPOCH + timedelta(days=value)
        if "timestamp" in node.logical:
            return _EPOCH + timedelta(microseconds=value * _PER_MICRO[unit] if unit in _PER_MICRO else value // 1_000)
    except OverflowError:
        return value
    return value
