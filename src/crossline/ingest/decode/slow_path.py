"""The slow path: one JSON record at a time. It is the reference: other decoders give the same values and refusals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crossline.ingest.decode.clock import NOT_A_TIME, TIME_MS_END, TIME_MS_MIN, real_to_ms, rfc3339_ms, whole_to_ms
from crossline.ingest.decode.json_scan import DEPTH_MAX
from crossline.ingest.decode.layout import Column, RecordLayout, Role
from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError
from crossline.ingest.decode.record import INTEGER, NUMBER, STRING, TIME_NUMBER, TIME_TEXT

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT64_DIGITS_MAX = 19
SHOWN_MAX = 60
# What is expected of times.
BELIEVED_TIME = "a time from 1970-01-01 to 2200-01-01"
KNOWN_YEARS = "years 1 to 9999"
TIME_EXAMPLE = "a time such as 2026-01-31T09:30:00.000Z"
BOM = "\ufeff"
HALF_A_PAIR = "half of a surrogate pair (\\ud800 to \\udfff) stands alone"
BOM_INSIDE = "a byte order mark stands before the record, expected none inside a file"
WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
# Strings are matched whole, so that brackets inside them are passed over.
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")

# Cells of a record by column number, its event time and its ingest time.
Taken = tuple[list[Any], int, int | None]


class NumberText(str):
    """A number of a JSON document, as it was written."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        met: set[str] = set()
        twice = next(key for key, _ in pairs if key in met or met.add(key))  # type: ignore[func-returns-value]
        raise _malformed(f"key {shown(twice)} stands twice in one object")
    return members


def _constant(name: str) -> Any:
    raise RefusedRecordError(RecordFault("bad_number", f"{name} is not a number of JSON"))


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=NumberText, parse_float=NumberText, parse_constant=_constant, strict=True
)


def parse_json_record(layout: RecordLayout, raw: bytes) -> Taken:
    """Decode one record. Raises RefusedRecordError."""
    document = parse_object(raw)
    try:
        cells = [cell(column, lookup(document, column)) for column in layout.columns]
        return with_roles(layout, cells)
    except RefusedRecordError as refused:
        refused.record_id = _id_of(layout, document)
        raise


def parse_object(raw: bytes) -> dict[str, Any]:
    """The one JSON object in ``raw``; its numbers are NumberText. Raises RefusedRecordError."""
    document = parse(raw)
    if not isinstance(document, dict):
        raise RefusedRecordError(RecordFault("not_an_object", found(document), "an object"))
    return document


def parse(raw: bytes) -> Any:
    """The one JSON document in ``raw``; its numbers are NumberText. Raises RefusedRecordError."""
    return parse_text(as_text(raw))


def parse_text(text: str) -> Any:
    """The one JSON document that ``text`` is. Raises RefusedRecordError."""
    if text.count("{") + text.count("[") > DEPTH_MAX and _depth(text) > DEPTH_MAX:
        raise _malformed(f"nested deeper than {DEPTH_MAX} levels")
    try:
        document = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at character {error.pos + 1}") from None
    if SURROGATE_ESCAPE.search(text):
        for part in _strings(document):
            if not _encodable(part):
                raise RefusedRecordError(RecordFault("bad_encoding", HALF_A_PAIR))
    return document


def as_text(raw: bytes) -> str:
    """UTF-8 as text. Raises RefusedRecordError."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1}"
        about = "not UTF-8"
        if raw[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            about, byte = "UTF-16 text", f"its byte order mark {byte}"
        raise RefusedRecordError(RecordFault("bad_encoding", byte, "UTF-8", about=about)) from None
    if text.startswith(BOM):
        raise RefusedRecordError(RecordFault("bad_encoding", BOM_INSIDE))
    return text


def lookup(document: dict[str, Any], column: Column) -> Any:
    """The value of a dotted field, None where it or an object on the way is absent or null."""
    here: Any = document
    parts = column.name.split(".")
    for depth, part in enumerate(parts):
        if here is None:
            return None
        if not isinstance(here, dict):
            raise RefusedRecordError(RecordFault("wrong_type", found(here), "an object", ".".join(parts[:depth])))
        here = here.get(part)
    return here


def cell(column: Column, value: Any) -> Any:
    """The value of a field as its column holds it. Raises RefusedRecordError."""
    if value is None:
        if column.spec.optional:
            return None
        raise RefusedRecordError(RecordFault.missing(column.name, column.spec.kind))
    if not column.spec.is_list:
        return scalar(column, value)
    if not isinstance(value, list):
        raise _wrong(column, value)
    return [scalar(column, item) for item in value]


def scalar(column: Column, value: Any) -> Any:
    """One value of the column's kind. Raises RefusedRecordError."""
    kind = column.spec.kind
    if kind == "timestamp":
        return _stamp(column, value)
    if kind == "string" and type(value) is str:
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, NumberText):
        if kind == "integer" and WHOLE.fullmatch(value):
            return _whole(column, value)
        if kind == "number":
            return _real(column, value)
    raise _wrong(column, value)


def with_roles(layout: RecordLayout, cells: list[Any]) -> Taken:
    """Check the id, and turn event and ingest time into epoch ms. Raises RefusedRecordError."""
    if layout.id_column is not None:
        check_id(layout.columns[layout.id_column], cells[layout.id_column])
    event_ms = 0 if layout.event is None else role_ms(layout, layout.event, cells)
    return cells, event_ms, None if layout.ingest is None else role_ms(layout, layout.ingest, cells)


def check_id(column: Column, value: Any) -> None:
    """Raise RefusedRecordError where the id is an empty text."""
    if value == "":
        raise RefusedRecordError(RecordFault.empty_id(column.name))


def role_ms(layout: RecordLayout, role: Role, cells: Sequence[Any]) -> int:
    """Event or ingest time in epoch ms, of the cells of a record. Raises RefusedRecordError."""
    column, value = layout.columns[role.column], cells[role.column]
    stamp = value
    if column.kind == INTEGER:
        stamp = whole_to_ms(value, role.unit)
    elif column.kind == NUMBER:
        stamp = real_to_ms(value, role.unit)
    elif column.kind == STRING:
        stamp = text_ms(column, value)
    if not TIME_MS_MIN <= stamp < TIME_MS_END:
        raise RefusedRecordError(RecordFault("time_out_of_range", shown(str(value)), BELIEVED_TIME, column.name))
    return int(stamp)


def _stamp(column: Column, value: Any) -> int:
    if type(value) is str and column.kind != TIME_NUMBER:
        return text_ms(column, value)
    if not isinstance(value, NumberText) or column.kind == TIME_TEXT:
        raise _wrong(column, value)
    if WHOLE.fullmatch(value):
        stamp = whole_to_ms(_whole(column, value), column.unit)
    else:
        stamp = real_to_ms(_real(column, value), column.unit)
    if stamp == NOT_A_TIME:
        raise RefusedRecordError(RecordFault("time_out_of_range", shown(value), KNOWN_YEARS, column.name))
    return int(stamp)


def text_ms(column: Column, value: str) -> int:
    """The instant that an RFC 3339 text names, in epoch ms. Raises RefusedRecordError."""
    raw = np.frombuffer(value.encode() + b"\0", np.uint8)
    stamp = rfc3339_ms(raw, 0, len(raw) - 1)
    if stamp == NOT_A_TIME:
        raise RefusedRecordError(RecordFault("bad_time", found(value), TIME_EXAMPLE, column.name))
    return int(stamp)


def _whole(column: Column, text: str) -> int:
    value = int(text) if len(text) <= INT64_DIGITS_MAX + 1 else None
    if value is None or not INT64_MIN <= value <= INT64_MAX:
        raise RefusedRecordError(RecordFault.beyond(column.name, shown(text), "a 64-bit integer"))
    return value


def _real(column: Column, text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise RefusedRecordError(RecordFault.beyond(column.name, shown(text), "a 64-bit float"))
    # Adding zero turns -0.0 into 0.0, so that equal numbers have equal bits.
    return value + 0.0


def _wrong(column: Column, value: Any) -> RefusedRecordError:
    expected = f"a list of {column.spec.kind}" if column.spec.is_list else column.spec.kind
    return RefusedRecordError(RecordFault("wrong_type", found(value), expected, column.name))


def _malformed(sentence: str) -> RefusedRecordError:
    return RefusedRecordError(RecordFault("malformed_json", sentence))


def found(value: Any) -> str:
    """A value of a document in a few words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, NumberText):
        return f"number {shown(value)}"
    if isinstance(value, str):
        return f'string "{shown(value)}"'
    return "an object" if isinstance(value, dict) else "a list"


def shown(text: str) -> str:
    """Text that fits in a message."""
    return str(text) if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"


def _id_of(layout: RecordLayout, document: dict[str, Any]) -> str | None:
    if layout.id_column is None:
        return None
    column = layout.columns[layout.id_column]
    try:
        return id_text(column, lookup(document, column))
    except RefusedRecordError:
        return None


def id_text(column: Column, value: Any) -> str | None:
    """The id of a record that is refused, None where it has none that is fit to be shown."""
    try:
        return str(cell(column, value)) or None
    except RefusedRecordError:
        return None


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _depth(text: str) -> int:
    """How many brackets outside strings are open at most: known before parsing, which is recursive."""
    depth = deepest = 0
    for token in BRACKETS.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        deepest = max(depth, deepest)
    return deepest


def _strings(document: Any) -> Iterator[str]:
    todo = [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            yield from value
        if isinstance(value, str):
            yield value
        todo.extend(_members(value))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
