"""What becomes of a row: it stays, it goes, or its mentions of the person are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from crossline.erasure.subject import Subject, dumped, parsed

Row = dict[str, Any]


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


def learn(subject: Subject, row: Mapping[str, Any], stream: str | None = None) -> None:
    """Add the ids of records that a row of the person names: its own, and those of evidence under the person's key."""
    given = row.get("stream")
    stream = given if isinstance(given, str) else stream
    for each in (row, *(inner for inner in row.values() if isinstance(inner, Mapping))):
        by_key = any(key.within(each) for key in subject.keys)
        key = each.get("key")
        by_key = by_key or (isinstance(key, Mapping) and any(one.within(key) for one in subject.keys))
        if not by_key:
            continue
        subject.add(stream, [each[name] for name in ("record_id", "_record_id") if each.get(name)])
        evidence = each.get("evidence")
        if isinstance(evidence, Mapping) and isinstance(evidence.get("record_ids"), list):
            subject.add(stream, evidence["record_ids"])
        if isinstance(each.get("record_ids"), list):
            subject.add(stream, each["record_ids"])


def _look(value: Any) -> Any:
    if isinstance(value, str):
        return parsed(value) or value
    if isinstance(value, bytes | bytearray | memoryview):
        text = decoded(value)
        return value if text is None else parsed(text) or value
    return value


def decoded(raw: bytes | bytearray | memoryview) -> str | None:
    """Bytes as text; None where they are not UTF-8."""
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return None


def _named(subject: Subject, row: Mapping[str, Any]) -> bool:
    """Whether a list of ``field=value`` names the person, as ``entities`` of PostgreSQL does."""
    given = row.get("entities")
    return isinstance(given, list) and any(f"{key.field}={key.value}" in given for key in subject.keys)


def _in_bytes(subject: Subject, row: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """Whether bytes that are no JSON have a trace: of a dead letter it is not known whose it is."""
    for name, value in row.items():
        if isinstance(value, bytes | bytearray | memoryview) and seen[name] is value:
            raw = bytes(value)
            if any(text.encode() in raw for text in subject.distinctive()):
                return True
    return False


def _scrubbed(subject: Subject, value: Any, stream: str | None, name: str) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        text = decoded(value)
        inner = None if text is None else parsed(text)
        if inner is None:
            return value
        again = subject.scrub(inner, stream, name)
        return value if again == inner else dumped(again).encode()
    return subject.scrub(value, stream, name)
