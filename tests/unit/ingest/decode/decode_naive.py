"""What a JSON record means, the slow and obvious way: a reader that shares no code with the decoder."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from crossline.basics.streams.schema import FieldSpec, StreamSpec

DEPTH_MAX = 64
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(2200, 1, 1, tzinfo=UTC)
ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Bad(Exception):  # noqa: N818 - a verdict, not an error
    """The record is refused, for this reason."""


class Num(str):
    """A number as written."""

    __slots__ = ()


class Reader:
    """Reads one JSON document."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> Any:
        value = self.value(0)
        self.space()
        if self.at < len(self.text):
            raise Bad("malformed_json")
        return value

    def space(self) -> None:
        while self.text[self.at : self.at + 1] in {" ", "\t", "\r", "\n"}:
            self.at += 1

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def value(self, depth: int) -> Any:
        self.space()
        for token, value in (("true", True), ("false", False), ("null", None)):
            if self.take(token):
                return value
        for token in ("NaN", "Infinity", "-Infinity"):
            if self.take(token):
                raise Bad("bad_number")
        if self.take('"'):
            return self.string()
        if self.take("{"):
            return self.object(depth + 1)
        if self.take("["):
            return self.array(depth + 1)
        number = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?").match(self.text, self.at)
        if number is None:
            raise Bad("malformed_json")
        self.at = number.end()
        return Num(number[0])

    def string(self) -> str:
        units: list[str] = []
        while True:
            char = self.text[self.at : self.at + 1]
            self.at += 1
            if char == '"':
                return paired("".join(units))
            if char == "" or char < " ":
                raise Bad("malformed_json")
            if char == "\\":
                char = self.escape()
            units.append(char)

    def escape(self) -> str:
        kind = self.text[self.at : self.at + 1]
        self.at += 1
        if kind == "u":
            digits = self.text[self.at : self.at + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise Bad("malformed_json")
            self.at += 4
            return chr(int(digits, 16))
        plain = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
        if kind not in plain:
            raise Bad("malformed_json")
        return plain[kind]

    def object(self, depth: int) -> dict[str, Any]:
        members: list[tuple[str, Any]] = []
        self.space()
        if self.take("}"):
            return {}
        while True:
            self.space()
            if not self.take('"'):
                raise Bad("malformed_json")
            key = self.string()
            self.space()
            if not self.take(":"):
                raise Bad("malformed_json")
            members.append((key, self.value(depth)))
            self.space()
            if self.take("}"):
                if len(dict(members)) < len(members):
                    raise Bad("malformed_json")
                return dict(members)
            if not self.take(","):
                raise Bad("malformed_json")

    def array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.space()
        if self.take("]"):
            return items
        while True:
            items.append(self.value(depth))
            self.space()
            if self.take("]"):
                return items
            if not self.take(","):
                raise Bad("malformed_json")


def paired(text: str) -> str:
    """Text whose pairs of surrogates are one character each; halves that stand alone stay."""

    def join(pair: re.Match[str]) -> str:
        high, low = map(ord, pair[0])
        return chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00)

    return re.sub("[\ud800-\udbff][\udc00-\udfff]", join, text)


def depth_of(text: str) -> int:
    """How many containers are open at most, going by the brackets outside strings."""
    depth, deepest, inside, at = 0, 0, False, 0
    while at < len(text):
        char = text[at]
        if inside:
            at += char == "\\"
            inside = char != '"'
        elif char == '"':
            inside = True
        else:
            depth += (char in "[{") - (char in "]}")
            deepest = max(depth, deepest)
        at += 1
    return deepest


def all_text(value: Any) -> str:
    """All strings of a document, keys too."""
    if isinstance(value, dict):
        return "".join(key + "|" + all_text(member) for key, member in value.items())
    return "".join(map(all_text, value)) if isinstance(value, list) else value if type(value) is str else ""


def stamp_of(value: Any, unit: str | None) -> int:
    """Epoch ms that a timestamp's value says; ``unit`` None: a number is ms, a text RFC 3339."""
    if type(value) is str and unit in {None, "iso8601"}:
        return iso_ms(value)
    if not isinstance(value, Num) or unit == "iso8601":
        raise Bad("wrong_type")
    return number_ms(number_of("integer" if re.fullmatch(r"-?\d+", value) else "number", value), unit or "ms")


def number_ms(value: float, unit: str) -> int:
    """Epoch ms of a number of units, rounded down; a double is taken to the nearest microsecond first."""
    if isinstance(value, int):
        ms = value * NANOS[unit] // 10**6
    else:
        micros = value * (NANOS[unit] / 1000)
        if abs(micros) > 1e30:
            raise Bad("time_out_of_range")
        ms = round(micros) // 1000
    if not -62135596800000 <= ms <= 253402300799999:
        raise Bad("time_out_of_range")
    return ms


def iso_ms(text: str) -> int:
    """Epoch ms of an RFC 3339 text."""
    parts = ISO.fullmatch(text)
    if parts is None:
        raise Bad("bad_time")
    try:
        clock = datetime.fromisoformat(f"{parts[1]}T{parts[2]}")
        east = timedelta(hours=int(parts[5] or 0), minutes=int(parts[6] or 0))
        instant = clock.replace(tzinfo=timezone(-east if parts[4] == "-" else east)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Bad("bad_time") from None
    return (instant - EPOCH) // timedelta(milliseconds=1) + int(((parts[3] or "") + "000")[:3])


def number_of(kind: str, value: Any) -> float:
    """An integer or a double."""
    if not isinstance(value, Num):
        raise Bad("wrong_type")
    if kind == "integer":
        if not re.fullmatch(r"-?\d+", value):
            raise Bad("wrong_type")
        if not -(2**63) <= Decimal(value) < 2**63:
            raise Bad("bad_number")
        return int(value)
    double = float(Decimal(value))
    if double in {float("inf"), float("-inf")}:
        raise Bad("bad_number")
    return 0.0 if double == 0 else double


def value_of(spec: StreamSpec, name: str, field: FieldSpec, value: Any) -> Any:
    """The value of one declared field."""
    if value is None:
        if field.optional:
            return None
        raise Bad("missing_field")
    if field.is_list:
        if not isinstance(value, list):
            raise Bad("wrong_type")
        return [
            value_of(spec, "", FieldSpec(field.kind), item) if item is not None else bad("wrong_type") for item in value
        ]
    if field.kind == "timestamp":
        units = {time.field: time.unit for time in (spec.ingest_time, spec.event_time) if time}
        return stamp_of(value, units.get(name))
    if field.kind in {"integer", "number"}:
        return number_of(field.kind, value)
    if type(value) is not {"string": str, "boolean": bool}[field.kind]:
        raise Bad("wrong_type")
    return value


def bad(reason: str) -> Any:
    raise Bad(reason)


def field_of(document: Any, name: str) -> Any:
    """The value of a dotted field, None where there is none."""
    for part in name.split("."):
        if document is None:
            return None
        if not isinstance(document, dict):
            raise Bad("wrong_type")
        document = document.get(part)
    return document


def document_of(text: str) -> Any:
    """The one JSON document that a text is. Raises Bad."""
    if depth_of(text) > DEPTH_MAX:
        raise Bad("malformed_json")
    document = Reader(text).document()
    if re.search("[\ud800-\udfff]", all_text(document)):
        raise Bad("bad_encoding")
    return document


def take(spec: StreamSpec, line: bytes) -> dict[str, Any]:
    """A record's fields, and its ``@event`` and ``@ingest`` in epoch ms. Raises Bad."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise Bad("bad_encoding") from None
    if text.startswith("\ufeff"):
        raise Bad("bad_encoding")
    document = document_of(text)
    if not isinstance(document, dict):
        raise Bad("not_an_object")
    return take_document(spec, lambda name: field_of(document, name))


def take_document(spec: StreamSpec, value: Callable[[str], Any]) -> dict[str, Any]:
    """The record whose field of a name has a JSON ``value``. Raises Bad."""
    record = {name: value_of(spec, name, field, value(name)) for name, field in spec.columns.items()}
    if record[spec.id] == "":
        raise Bad("missing_field")
    for role, time in (("@event", spec.event_time), ("@ingest", spec.ingest_time)):
        if time is not None:
            found = record[time.field]
            if spec.columns[time.field].kind != "timestamp":
                found = iso_ms(found) if isinstance(found, str) else number_ms(found, time.unit)
            if not EPOCH <= EPOCH + timedelta(milliseconds=found) < END:
                raise Bad("time_out_of_range")
            record[role] = found
    return record
