"""Bytes of a record by a writer's schema, out of JSON as ``view`` shows it; nothing is guessed and nothing cut."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from crossline.ingest.avro.schema import Node
from crossline.ingest.avro.view import EPOCH, PER_MICRO
from crossline.ingest.avro.wire import HEADER_BYTES, MAGIC

_ENDS = {"int": 1 << 31, "long": 1 << 63}
_SPECIAL = {"NaN", "Infinity", "-Infinity"}
_SHORT = 60


class UnfitError(Exception):
    """A value that the schema has no bytes for; ``path``: the fields in which it stands, from the outside in."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[str] = []

    def __str__(self) -> str:
        place = f"field {'.'.join(self.path)}: " if self.path else ""
        return f"{place}{self.args[0]}"


def encoded(number: int, schema: Node, record: Any) -> bytes:
    """A value of the registry's wire format: the number of its schema, and ``record`` by it.

    A field that is left out is null where it may be. In a union the first type that takes the value as it is counts,
    and a whole number goes to a type of whole numbers before one of others. Raises UnfitError.
    """
    out = bytearray((MAGIC, *number.to_bytes(HEADER_BYTES - 1, "big", signed=True)))
    _write(out, schema, record)
    return bytes(out)


def _write(out: bytearray, node: Node, value: Any) -> None:
    _WRITERS[node.kind](out, node, value)


def _wrong(value: Any, expected: str) -> UnfitError:
    text = repr(value) if value is not None else "null"
    return UnfitError(f"found {text if len(text) <= _SHORT else text[:_SHORT] + '…'}, expected {expected}")


def _long(out: bytearray, value: int) -> None:
    bits = (value << 1) ^ (value >> 63)
    while bits >= 0x80:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)


def _null(out: bytearray, _: Node, value: Any) -> None:  # noqa: ARG001 - as the others
    if value is not None:
        raise _wrong(value, "null")


def _boolean(out: bytearray, _: Node, value: Any) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    out.append(value)


def _whole(out: bytearray, node: Node, value: Any) -> None:
    if isinstance(value, str):
        value = _instant(node, value)
    if type(value) is not int or not -_ENDS[node.kind] <= value < _ENDS[node.kind]:
        raise _wrong(value, f"a whole number, {node} of {'32' if node.kind == 'int' else '64'} bits")
    _long(out, value)


def _instant(node: Node, text: str) -> int:
    """The number that a date or an instant is."""
    unit = node.logical.rpartition("-")[2]
    try:
        if node.logical == "date":
            return (date.fromisoformat(text) - EPOCH.date()).days
        if "timestamp" in node.logical and unit in PER_MICRO:
            at = datetime.fromisoformat(text)
            micros = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)
            if micros % PER_MICRO[unit]:
                raise _wrong(text, f"no more digits than {unit}")
            return micros // PER_MICRO[unit]
    except (ValueError, OverflowError):
        raise _wrong(text, "a date" if node.logical == "date" else "an instant, such as 2026-01-05T09:15:00Z") from None
    raise _wrong(text, f"a whole number, {node}")


def _real(out: bytearray, node: Node, value: Any) -> None:
    named = isinstance(value, str) and value in _SPECIAL
    if isinstance(value, bool) or not (named or isinstance(value, int | float)):
        raise _wrong(value, f"a number, {node}")
    try:
        out += struct.pack("<f" if node.kind == "float" else "<d", float(value))
    except OverflowError:
        raise _wrong(value, f"a number that a {node.kind} can have") from None


def _text(out: bytearray, _: Node, value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong(value, "text")
    data = value.encode()
    _long(out, len(data))
    out += data


def _octets(out: bytearray, node: Node, value: Any) -> None:
    data = _octets_of(node, value)
    if node.kind == "bytes":
        _long(out, len(data))
    elif len(data) != node.size:
        raise _wrong(value, f"{node.size} bytes")
    out += data


def _octets_of(node: Node, value: Any) -> bytes:
    if node.logical == "decimal":
        return _decimal(node, value)
    try:
        return uuid.UUID(value).bytes if node.logical == "uuid" else bytes.fromhex(value)
    except (ValueError, TypeError, AttributeError):
        raise _wrong(value, "a UUID" if node.logical == "uuid" else "bytes in hex") from None


def _decimal(node: Node, value: Any) -> bytes:
    try:
        given = Decimal(value if isinstance(value, str) else str(value))
        unscaled = int(scaled) if (scaled := given.scaleb(node.scale)) == scaled.to_integral_value() else None
    except (InvalidOperation, ValueError, OverflowError):
        unscaled = None
    if unscaled is None or isinstance(value, bool):
        raise _wrong(value, f"a decimal number with at most {node.scale} digits behind the point, as text")
    size = node.size if node.kind == "fixed" else (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    try:
        return unscaled.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise _wrong(value, f"a decimal number of {size} bytes") from None


def _symbol(out: bytearray, node: Node, value: Any) -> None:
    if value not in node.symbols:
        raise _wrong(value, f"one of {', '.join(node.symbols)}")
    _long(out, node.symbols.index(value))


def _array(out: bytearray, node: Node, value: Any) -> None:
    if not isinstance(value, list):
        raise _wrong(value, "a list")
    if value:
        _long(out, len(value))
        for each in value:
            _write(out, node.inner[0], each)
    out.append(0)


def _map(out: bytearray, node: Node, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(value, "an object")
    if value:
        _long(out, len(value))
        for name, each in value.items():
            _text(out, node, name)
            _within(name, out, node.inner[0], each)
    out.append(0)


def _record(out: bytearray, node: Node, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(value, "an object")
    for name in value.keys() - {known for known, _ in node.fields}:
        raise UnfitError(f"found field {name}, which the schema has not")
    for name, inner in node.fields:
        _within(name, out, inner, value.get(name))


def _within(name: str, out: bytearray, node: Node, value: Any) -> None:
    try:
        _write(out, node, value)
    except UnfitError as error:
        error.path.insert(0, name)
        raise


def _union(out: bytearray, node: Node, value: Any) -> None:
    whole = type(value) is int
    order = sorted(enumerate(node.inner), key=lambda each: whole and each[1].kind in {"float", "double"})
    why: UnfitError | None = None
    for number, branch in order:
        tried = bytearray()
        try:
            _write(tried, branch, value)
        except UnfitError as error:
            why = error if branch.kind != "null" and (why is None or error.path) else why
            continue
        _long(out, number)
        out += tried
        return
    if why is not None and (why.path or len(node.inner) <= 2):
        raise why
    raise _wrong(value, f"one of {', '.join(str(each) for each in node.inner)}")


_WRITERS: dict[str, Callable[[bytearray, Node, Any], None]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _real,
    "double": _real,
    "string": _text,
    "bytes": _octets,
    "fixed": _octets,
    "enum": _symbol,
    "array": _array,
    "map": _map,
    "record": _record,
    "union": _union,
}
