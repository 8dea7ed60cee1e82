"""One flat record at a time, without columns: what is certain to be good, in a hundredth of the time of a scan.

It decodes a record or returns None. Any other record (nested, with escapes, of an unknown type, at fault) goes
to the slow path, which is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from crossline.ingest.decode.clock import NANOS, TIME_MS_END, TIME_MS_MIN
from crossline.ingest.decode.layout import RecordLayout, Role
from crossline.ingest.decode.record import BOOLEAN, INTEGER, NUMBER, STRING
from crossline.ingest.decode.slow_path import INT64_MAX, INT64_MIN

BYTES_MAX = 16_384
_MS_NANOS = 1_000_000
_TYPES: dict[int, tuple[type, ...]] = {STRING: (str,), INTEGER: (int,), NUMBER: (int, float), BOOLEAN: (bool,)}
_FLAT = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class PlainForm:
    """What flat records of a stream look like. ``fields``: (name, Python types, whether it may be missing).

    ``times``: (field, nanoseconds of its unit) of event and ingest time. ``future_ms``: see ``RecordLayout``.
    """

    id_field: str
    fields: tuple[tuple[str, tuple[type, ...], bool], ...]
    times: tuple[tuple[str, int], ...]
    future_ms: int

    @staticmethod
    def of(layout: RecordLayout) -> PlainForm | None:
        """That of a stream; None where its records are not flat, or their id and times are no plain values."""
        roles = [role for role in (layout.event, layout.ingest) if role is not None]
        # What it reads has the values as they came.
        if (
            layout.tokens is not None
            or layout.id_column is None
            or any(column.kind not in _TYPES or "." in column.name for column in layout.columns)
        ):
            return None
        named = layout.columns[layout.id_column]
        if named.kind != STRING or any(layout.columns[role.column].kind != INTEGER for role in roles):
            return None
        fields = tuple((column.name, _TYPES[column.kind], column.spec.optional) for column in layout.columns)
        times = tuple((layout.columns[role.column].name, _nanos(role)) for role in roles)
        return PlainForm(named.name, fields, times, layout.future_ms)

    def read(self, line: bytes, known_ms: int) -> tuple[str, dict[str, Any]] | None:
        """The id and the members of the record in ``line``, if it is certain to be good; else None.

        ``known_ms``: when it is known to have been there, epoch milliseconds.
        """
        document = _flat(line)
        if document is None or not self._fits(document) or not self._in_time(document, known_ms):
            return None
        record_id = document.get(self.id_field)
        return (record_id, document) if record_id else None

    def event_ms(self, document: dict[str, Any]) -> int:
        """The event time of a record that was read."""
        name, nanos = self.times[0]
        return int(document[name]) * nanos // _MS_NANOS

    def _in_time(self, document: dict[str, Any], known_ms: int) -> bool:
        for name, nanos in self.times:
            value = document.get(name)
            if value is None or not TIME_MS_MIN <= value * nanos // _MS_NANOS < TIME_MS_END:
                return False
            if value * nanos // _MS_NANOS > known_ms + self.future_ms:
                return False
        return True

    def _fits(self, document: dict[str, Any]) -> bool:
        for name, types, optional in self.fields:
            value = document.get(name)
            if value is None:
                if not optional:
                    return False
            elif type(value) not in types or (type(value) is int and not INT64_MIN <= value <= INT64_MAX):
                return False
        return True


def _flat(line: bytes) -> dict[str, Any] | None:
    """The members of an object of plain values, each key once; None for anything else."""
    if len(line) > BYTES_MAX or b"\\" in line:
        return None
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(document) is not dict:
        return None
    kinds = [type(value) for value in document.values()]
    # Without escapes each text has two quotes: of a key that stands twice there would be more.
    quotes = 2 * (len(document) + kinds.count(str))
    return document if _FLAT.issuperset(kinds) and line.count(b'"') == quotes else None


def _nanos(role: Role) -> int:
    return int(NANOS[role.unit])
