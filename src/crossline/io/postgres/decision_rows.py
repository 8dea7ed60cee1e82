"""Decisions as rows of their table in PostgreSQL's binary form: there are thousands, of which no row becomes a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import orjson
from psycopg import Copy

from crossline.basics.values import I64
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.columns import DecisionColumns, DecisionHead
from crossline.io.postgres.decision_ids import TABLE, decision_identities
from crossline.io.postgres.delivered import COPY_BEGIN, COPY_END, START, instant_of, micros_of, month_of
from crossline.io.postgres.stored_rows import StoredRows
from crossline.io.postgres.text_escapes import BYTES_MAX, escape, escape_value, held, held_otherwise, indexed
from crossline.io.sinks.decisions import Decisions

_COLUMNS = (
    *("kind", "decision", "score", "policy_version", "revision", "revises", "because", "stream", "decided_at"),
    *("delivered_at", "pipeline", "batch_id", "decision_id", "record_id", "event_time", "body"),
)
_NULL = b"\xff\xff\xff\xff"
_INSTANT = (8).to_bytes(4, "big")  # begins a time: microseconds since the start of 2000, of 8 bytes
_START_MS = 946_684_800_000
_PIECE = 1_000  # rows that are handed over at once
_Parts = Sequence[Sequence[bytes]]  # of each part of a row that of each row, in the order in which they stand in it


class DecisionRows(StoredRows):
    """The rows of ``decisions``, of two with one id the first, as ``TableRows`` of another table."""

    table = TABLE
    columns = _COLUMNS
    form = " (FORMAT binary)"

    def __init__(self, decisions: Sequence[Mapping[str, Any]], now_ms: int, pipeline: str, batch_id: int) -> None:
        given = decisions.columns if isinstance(decisions, Decisions) else _columns(decisions)
        own, stored = _names(given.ids), indexed(pipeline)
        mark = (_instant(START + timedelta(milliseconds=now_ms - _START_MS)), _text(stored), _i64(batch_id))
        starts = [b"".join((b"\0\x10", *_common(head), *mark)) for head in given.heads]
        micros, records, bodies = _micros(given), _names(given.record_ids), _bodies(given)
        size = {n: n.to_bytes(4, "big") for texts in (own, records, bodies) for n in set(map(len, texts))}
        sized = ([size[len(each)] for each in texts] for texts in (own, records, bodies))
        (own_size, record_size, body_size), heads = sized, [starts[head] for head in given.head.tolist()]
        columns: _Parts = (heads, own_size, own, record_size, records, _instants(micros), body_size, bodies)
        identities, months = decision_identities(pipeline, stored, given.ids), _months(given)
        if len(set(identities)) < len(identities):
            first = dict(zip(reversed(identities), reversed(range(len(identities))), strict=True))
            kept = sorted(first.values())
            columns, identities = _taken(columns, kept), [identities[at] for at in kept]
            months, micros = [months[at] for at in kept], micros[kept]
        self._columns, self.identities, self.months, self.micros = columns, identities, months, micros

    def write(self, copy: Copy, numbers: Sequence[int] | None = None) -> None:
        """Give the server the rows with these numbers, by default all."""
        columns = self._columns if numbers is None else _taken(self._columns, numbers)
        copy.write(COPY_BEGIN)
        for at in range(0, len(columns[0]), _PIECE):
            piece = zip(*(column[at : at + _PIECE] for column in columns), strict=True)
            copy.write(b"".join(chain.from_iterable(piece)))
        copy.write(COPY_END)


def _taken(columns: _Parts, numbers: Sequence[int]) -> _Parts:
    return [[column[number] for number in numbers] for column in columns]


def _columns(values: Sequence[Mapping[str, Any]]) -> DecisionColumns:
    return DecisionColumns.of_values(values, [_encoded(each) for each in values])


def _encoded(value: Mapping[str, Any]) -> bytes:
    try:
        return json_bytes(value)
    except TypeError:  # half a surrogate pair
        return json_bytes(escape_value(value))


def _common(head: DecisionHead) -> Iterator[bytes]:
    """The fields that decisions with one head have in common."""
    yield from (_text(escape(str(each))) for each in (head.kind, head.decision))
    yield _f64(head.score)
    yield from (_i64(head.policy_version), _i64(head.revision))
    yield _NULL if head.revises is None else _text(indexed(str(head.revises)))
    yield _NULL if head.because is None else _text(escape(str(head.because)))
    yield _text(escape(str(head.stream)))
    yield _NULL if head.decided_at is None else _instant(instant_of(head.decided_at))


def _field(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


def _text(text: str) -> bytes:
    return _field(text.encode())


def _i64(value: Any) -> bytes:
    return _field(int(value).to_bytes(8, "big", signed=True))


def _f64(value: Any) -> bytes:
    return _field(np.array(float(value), ">f8").tobytes())


def _instant(instant: datetime) -> bytes:
    return _INSTANT + micros_of(instant).to_bytes(8, "big", signed=True)


def _micros(given: DecisionColumns) -> I64:
    """The event times as the database counts them."""
    micros: I64 = (given.event_ms - _START_MS) * 1_000
    for number, value in given.values.items():
        micros[number] = micros_of(instant_of(value["event_time"]))
    return micros


def _instants(micros: I64) -> list[bytes]:
    """Times as fields."""
    raw = micros.astype(">i8").tobytes()
    return [_INSTANT + raw[at : at + 8] for at in range(0, len(raw), 8)]


def _months(given: DecisionColumns) -> list[str]:
    """The first day of the month of each event time."""
    months, number = np.unique(given.event_ms.astype("datetime64[ms]").astype("datetime64[M]"), return_inverse=True)
    texts = [f"{month}-01" for month in np.datetime_as_string(months).tolist()]
    found = [texts[each] for each in number.tolist()]
    for at, value in given.values.items():
        found[at] = month_of(value["event_time"])
    return found


def _names(names: Sequence[bytes]) -> Sequence[bytes]:
    """Ids as they stand in columns with an index."""
    every = b"".join(names)
    if every.isascii() and b"\0" not in every and max(map(len, names), default=0) <= BYTES_MAX // 4:
        return names
    return [indexed(each.decode(errors="surrogatepass")).encode() for each in names]


def _bodies(given: DecisionColumns) -> Sequence[bytes]:
    """The whole of each as JSON that the database holds."""
    every = given.lines
    if not held_otherwise(b"".join(every)):  # a line begins and ends with a brace: no text goes over two
        return every
    return [held(line, given.values.get(number) or orjson.loads(line)) for number, line in enumerate(every)]
