"""Decisions as rows of their table in PostgreSQL's binary form: there are thousands, of which no row becomes a dict."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson
from psycopg import Copy

from crossline.basics.values import I64
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.columns import DecisionColumns, DecisionHead
from crossline.io.postgres.delivered import COPY_BEGIN, COPY_END, identity, identity_start, month_of
from crossline.io.postgres.stored_rows import StoredRows
from crossline.io.postgres.text_escapes import BYTES_MAX, escape, escape_value, held, held_otherwise, indexed
from crossline.io.sinks.decisions import Decisions

_COLUMNS = (
    *("kind", "decision", "score", "policy_version", "revision", "revises", "because", "stream", "decided_at"),
    *("delivered_at", "pipeline", "batch_id", "decision_id", "record_id", "event_time", "body"),
)
_NULL = b"\xff\xff\xff\xff"
_INSTANT = (8).to_bytes(4, "big")  # begins a time: microseconds since the start of 2000, of 8 bytes
_START = datetime(2000, 1, 1, tzinfo=UTC)
_START_MS = 946_684_800_000
_PIECE = 1_000  # rows that are handed over at once
_IN_JSON = re.compile(rb"[ !#-\[\]-\x7f]*").fullmatch  # characters that stand in JSON as they are


class DecisionRows(StoredRows[bytes]):
    """The rows of ``decisions``, of two with one id the first, as ``TableRows`` of another table."""

    table = "decisions"
    columns = _COLUMNS
    form = " (FORMAT binary)"

    def __init__(self, decisions: Sequence[Mapping[str, Any]], now_ms: int, pipeline: str, batch_id: int) -> None:
        given = decisions.columns if isinstance(decisions, Decisions) else _columns(decisions)
        own = _names(given.ids)
        mark = (_instant(_START + timedelta(milliseconds=now_ms - _START_MS)), _text(indexed(pipeline)), _i64(batch_id))
        starts = [b"".join((b"\0\x10", *_common(head), *mark)) for head in given.heads]
        heads, records, bodies, times = given.head.tolist(), _names(given.record_ids), _bodies(given), _times(given)
        size = {n: n.to_bytes(4, "big") for n in {len(each) for texts in (own, records, bodies) for each in texts}}
        fields = (heads, own, records, times, bodies)
        rows = [
            b"".join([starts[head], size[len(name)], name, size[len(record)], record, at, size[len(body)], body])
            for head, name, record, at, body in zip(*fields, strict=True)
        ]
        found: dict[str, tuple[str, bytes]] = {}
        for name, month, row in zip(_identities(pipeline, given.ids), _months(given), rows, strict=True):
            found.setdefault(name, (month, row))
        self._rows = found

    def write(self, copy: Copy, identities: Sequence[str]) -> None:
        """Give the server the rows of ``identities``."""
        copy.write(COPY_BEGIN)
        for at in range(0, len(identities), _PIECE):
            copy.write(b"".join([self._rows[each][1] for each in identities[at : at + _PIECE]]))
        copy.write(COPY_END)


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
    yield _NULL if head.decided_at is None else _instant(_read(head.decided_at))


def _field(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


def _text(text: str) -> bytes:
    return _field(text.encode())


def _i64(value: Any) -> bytes:
    return _field(int(value).to_bytes(8, "big", signed=True))


def _f64(value: Any) -> bytes:
    return _field(np.array(float(value), ">f8").tobytes())


def _instant(instant: datetime) -> bytes:
    return _INSTANT + _micros(instant).to_bytes(8, "big", signed=True)


def _read(text: str) -> datetime:
    """An instant of a decision; raises ValueError where it is none."""
    read = datetime.fromisoformat(text)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _micros(instant: datetime) -> int:
    return (instant - _START) // timedelta(microseconds=1)


def _times(given: DecisionColumns) -> list[bytes]:
    """The event times as fields."""
    micros: I64 = (given.event_ms - _START_MS) * 1_000
    for number, value in given.values.items():
        micros[number] = _micros(_read(value["event_time"]))
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


def _identities(pipeline: str, ids: Sequence[bytes]) -> list[str]:
    """As ``identity`` gives them."""
    start = identity_start(pipeline, DecisionRows.table)
    if _IN_JSON(b"".join(ids)) is None:
        return [identity(start, (each.decode(errors="surrogatepass"),)) for each in ids]
    begun = hashlib.blake2b(start + b', "', digest_size=16)
    found = []
    for each in ids:
        digest = begun.copy()
        digest.update(each + b'"]')
        found.append(digest.hexdigest())
    return found


def _bodies(given: DecisionColumns) -> list[bytes]:
    """The whole of each as JSON that the database holds."""
    every = given.lines
    if not any(held_otherwise(line) for line in every):
        return list(every)
    return [held(line, given.values.get(number) or orjson.loads(line)) for number, line in enumerate(every)]
