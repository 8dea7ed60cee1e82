"""A value of Avro as the column that a stream declares holds it; what does not fit is refused with what was found."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

from crossline.ingest.avro.binary import Found
from crossline.ingest.avro.schema import STAMPS
from crossline.ingest.decode.clock import NANOS, NOT_A_TIME, UNIT_CODES, real_to_ms, whole_to_ms
from crossline.ingest.decode.layout import Column, RecordLayout
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError
from crossline.ingest.decode.record import TIME_NUMBER, TIME_TEXT
from crossline.ingest.decode.slow_path import INT64_MAX, INT64_MIN, KNOWN_YEARS, shown, text_ms

DAY_S = 86_400
# 2^512 and more: no 64-bit float is near, and its digits would take a while to write down.
DECIMAL_BYTES_MAX = 64
UNITS = {name: UNIT_CODES[{"millis": "ms", "micros": "us", "nanos": "ns"}[name.rpartition("-")[2]]] for name in STAMPS}
_WHOLE, _REAL = {"int", "long"}, {"float", "double"}
TIMES_OF_DAY = {"time-millis", "time-micros"}


def cell(column: Column, unit: int | None, found: Found | None) -> Any:
    """The value of a column; None where it is absent or null and may be. Raises RefusedRecordError.

    ``unit``: see ``units``.
    """
    if found is not None and found.place:
        given = description(Found(found.node, found.value))
        raise RefusedRecordError(RecordFault("wrong_type", given, "an object", found.place))
    if found is None or found.node.kind == "null":
        if column.spec.optional:
            return None
        raise RefusedRecordError(RecordFault.missing(column.name, column.spec.kind))
    if not column.spec.is_list:
        return _scalar(column, unit, found)
    if found.node.kind not in {"array", "map"}:
        raise _wrong(column, found)
    return [_scalar(column, None, item) for item in found.value]


def units(layout: RecordLayout) -> list[int | None]:
    """Of each column the unit in which a number is the record's event or ingest time; None of any other column."""
    roles = {role.column: role.unit for role in (layout.ingest, layout.event) if role is not None}
    return [roles.get(number) for number in range(len(layout.columns))]


def _scalar(column: Column, unit: int | None, found: Found) -> Any:
    kind = column.spec.kind
    value: Any = None
    if kind == "string":
        value = _text(column, found)
    elif kind == "boolean":
        value = found.value if found.node.kind == "boolean" else None
    elif kind == "integer":
        value = _integer(column, unit, found)
    elif kind == "number":
        value = _number(column, unit, found)
    else:
        value = _stamp(column, found)
    if value is None:
        raise _wrong(column, found)
    return value


def _text(column: Column, found: Found) -> str | None:
    kind, value = found.node.kind, found.value
    if kind == "enum":
        return str(found.node.symbols[value])
    if found.node.logical == "uuid" and kind == "fixed":
        return str(uuid.UUID(bytes=value))
    if kind != "string":
        return None
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{value[error.start]:02x} at byte {error.start + 1}"
        raise RefusedRecordError(RecordFault("bad_encoding", byte, "UTF-8", column.name)) from None


def _integer(column: Column, unit: int | None, found: Found) -> int | None:
    node = found.node
    if node.kind in _WHOLE:
        given = UNITS.get(node.logical)
        if unit is None or given is None or given == unit:
            return int(found.value)
        # The schema defines the unit of a number: a time in another unit than declared is still that time.
        return _within(column, int(found.value) * int(NANOS[given]) // int(NANOS[unit]), found)
    if node.logical != "decimal":
        return None
    whole, rest = divmod(_unscaled(column, found), 10**node.scale)
    return None if rest else _within(column, whole, found)


def _within(column: Column, value: int, found: Found) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise RefusedRecordError(RecordFault.beyond(column.name, description(found), "a 64-bit integer"))
    return value


def _number(column: Column, unit: int | None, found: Found) -> float | None:
    node = found.node
    if node.kind in _WHOLE:
        given = UNITS.get(node.logical)
        if unit is None or given is None:
            return float(found.value)
        return int(found.value) * int(NANOS[given]) / int(NANOS[unit])
    if node.kind in _REAL:
        if not math.isfinite(found.value):
            raise _bad_number(column, found, "a finite number", "not a finite number")
        # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
        return float(found.value) + 0.0
    return _exact(column, found) if node.logical == "decimal" else None


def _exact(column: Column, found: Found) -> float:
    """The double next to a decimal, where the decimal can be read from it again; an amount must not lose a cent."""
    value = decimal_of(_unscaled(column, found), found.node.scale)
    try:
        near = float(value)
    except OverflowError:
        near = math.inf
    if math.isfinite(near) and value in (Decimal(repr(near)), Decimal(near)):
        return near + 0.0
    limit = "with more digits than a 64-bit float holds exactly"
    raise _bad_number(column, found, "a number that a 64-bit float holds exactly", limit)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """The decimal of these digits, whatever precision Python computes in."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _unscaled(column: Column, found: Found) -> int:
    if not 0 < len(found.value) <= DECIMAL_BYTES_MAX:
        raise _bad_number(column, found, f"1 to {DECIMAL_BYTES_MAX} bytes of digits")
    return int.from_bytes(found.value, "big", signed=True)


def _stamp(column: Column, found: Found) -> int | None:
    kind, logical, value = found.node.kind, found.node.logical, found.value
    stamp: int | None = None
    if logical in UNITS:
        stamp = int(whole_to_ms(value, UNITS[logical]))
    elif logical == "date":
        stamp = int(whole_to_ms(value * DAY_S, UNIT_CODES["s"]))
    elif kind == "string" and column.kind != TIME_NUMBER:
        return text_ms(column, _text(column, found) or "")
    elif kind in _WHOLE and column.kind != TIME_TEXT and logical not in TIMES_OF_DAY:
        stamp = int(whole_to_ms(value, column.unit))
    elif kind in _REAL and column.kind != TIME_TEXT:
        stamp = int(real_to_ms(_number(column, None, found) or 0.0, column.unit))
    if stamp == NOT_A_TIME:
        raise RefusedRecordError(RecordFault("time_out_of_range", description(found), KNOWN_YEARS, column.name))
    return stamp


def _bad_number(column: Column, found: Found, expected: str, limit: str = "") -> RefusedRecordError:
    return RefusedRecordError(RecordFault("bad_number", description(found), expected, column.name, limit=limit))


def _wrong(column: Column, found: Found) -> RefusedRecordError:
    expected = f"a list of {column.spec.kind}" if column.spec.is_list else column.spec.kind
    return RefusedRecordError(RecordFault("wrong_type", description(found), expected, column.name))


def description(found: Found) -> str:
    """A value in a few words."""
    node, value = found.node, found.value
    text = ""
    if node.kind in {"record", "array", "map", "null"}:
        return {"record": "a record", "array": "an array", "map": "a map", "null": "null"}[node.kind]
    if node.logical == "decimal" and len(value) <= DECIMAL_BYTES_MAX:
        text = str(decimal_of(int.from_bytes(value, "big", signed=True), node.scale))
    elif node.kind in {"bytes", "fixed"}:
        text = f"of {len(value)} bytes"
    elif node.kind == "string":
        text = f'"{shown(str(value, "utf-8", "replace"))}"'
    elif node.kind == "enum":
        text = node.symbols[value]
    else:
        text = str(value).lower() if node.kind == "boolean" else str(value)
    return f"{node} {shown(text)}"
