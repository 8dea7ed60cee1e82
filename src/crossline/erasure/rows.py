"""What becomes of a row: it stays, it goes, or its mentions of the person are replaced."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from crossline.erasure.subject import Subject, dumped, parsed
from crossline.erasure.torn import has_trace

Row = dict[str, Any]
_PACKED = ("raw", "raw_base64")  # bytes of a dead letter or a late record, as JSON has them


class _Gone:
    """The type of ``GONE``."""


GONE: Final = _Gone()


def treat(subject: Subject, row: Mapping[str, Any], stream: str | None = None, *, keeps: bool = False) -> Any:
    """What becomes of a row of a table.

    Args:
        subject: Whose traces are erased.
        row: By column. Texts that are JSON are looked into; bytes are looked into where they are JSON, else searched.
        stream: The stream of its ids where the row does not name it.
        keeps: Whether a row of the person stays too, without the traces.

    Returns:
        ``GONE``, the row itself where it has no trace, or another row in its place.
    """
    seen = {name: _look(value) for name, value in row.items()}
    given = row.get("stream")
    stream = given if isinstance(given, str) else stream
    if not keeps and (subject.owns(seen, stream) or _named(subject, seen) or _in_bytes(subject, row, seen)):
        learn(subject, seen, stream)
        return GONE
    changed: Row = {}
    for name, value in row.items():
        new = _scrubbed(subject, value, stream, name)
        if new is not value and new != value:
            changed[name] = new
    return {**row, **changed} if changed else row


def treat_packed(subject: Subject, row: Row, stream: str | None = None) -> Any:
    """As ``treat``, of a row of JSON whose bytes are texts: as they are, or in base 64."""
    packed = {name: _unpacked(row[name]) for name in _PACKED if isinstance(row.get(name), str)}
    text = row.get("raw")  # a torn text may have the form of base 64
    if isinstance(text, str) and packed["raw"] != text.encode() and has_trace(subject, text.encode()):
        learn(subject, row, stream)
        return GONE
    seen = {**row, **packed}
    after = treat(subject, seen, stream)
    if after is GONE or after is seen:
        return GONE if after is GONE else row
    return {
        **after,
        **{name: row[name] if after[name] == raw else _packed(after[name]) for name, raw in packed.items()},
    }


def _unpacked(raw: str) -> bytes:
    if parsed(raw) is not None:
        return raw.encode()
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        return raw.encode()


def _packed(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def learn(subject: Subject, row: Mapping[str, Any], stream: str | None = None, depth: int = 0) -> None:
    """Add the ids of records that a row of the person names: its own, and those of evidence under the person's key."""
    given = row.get("stream")
    stream = given if isinstance(given, str) else stream
    inner = [each for each in row.values() if isinstance(each, Mapping)]
    if any(key.within(each) for each in (row, *inner) for key in subject.keys):
        subject.add(stream, _record_ids(row))
    named = row.get("key")
    if isinstance(named, Mapping) and any(key.within(named) for key in subject.keys):
        evidence = row.get("evidence")
        ids = evidence.get("record_ids") if isinstance(evidence, Mapping) else row.get("record_ids")
        subject.add(stream, ids if isinstance(ids, list) else ())
    for each in inner if depth == 0 else ():  # an alert or a decision in a row about it
        learn(subject, each, stream, 1)


def _record_ids(row: Mapping[str, Any]) -> list[Any]:
    return [row[name] for name in ("record_id", "_record_id") if row.get(name)]


def _look(value: Any) -> Any:
    if isinstance(value, str):
        return parsed(value) or value
    if isinstance(value, bytes | bytearray | memoryview):
        return parsed_bytes(value) or value
    return value


def decoded(raw: bytes | bytearray | memoryview) -> str | None:
    """Bytes as text; None where they are not UTF-8."""
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return None


def parsed_bytes(raw: bytes | bytearray | memoryview) -> Any:
    """The JSON object or list that bytes are; None for others. A name that an object has twice has all its values."""
    text = decoded(raw)
    return None if text is None else parsed(text, _of_pairs)


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for name in found:
            values = [value for each, value in pairs if each == name]
            found[name] = values[0] if len(values) == 1 else values
    return found


def _named(subject: Subject, row: Mapping[str, Any]) -> bool:
    """Whether a list of ``field=value`` names the person, as ``entities`` of PostgreSQL does."""
    given = row.get("entities")
    return isinstance(given, list) and any(f"{key.field}={key.value}" in given for key in subject.keys)


def _in_bytes(subject: Subject, row: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """Whether bytes have a trace that cannot be replaced: of a dead letter it is not known whose it is."""
    return any(
        _trace_in(subject, bytes(value), seen[name], of_record=name in _PACKED)
        for name, value in row.items()
        if isinstance(value, bytes | bytearray | memoryview)
    )


def _trace_in(subject: Subject, raw: bytes, seen: Any, *, of_record: bool) -> bool:
    """Whether bytes have a trace; of a JSON object, one that a scrub leaves: in a text that is torn JSON itself.

    Bytes that are no record, as digests are, have no short values.
    """
    if not isinstance(seen, Mapping):
        return has_trace(subject, raw, distinctive=not of_record)
    return has_trace(subject, dumped(subject.scrub(seen)).encode("utf-8", "replace"), distinctive=True)


def _scrubbed(subject: Subject, value: Any, stream: str | None, name: str) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        inner = parsed_bytes(value)
        if inner is None:
            return value
        again = subject.scrub(inner, stream, name)
        return value if again == inner else dumped(again).encode()
    return subject.scrub(value, stream, name)
