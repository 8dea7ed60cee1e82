"""Converts a delivery to rows of the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

from crossline.basics.times import instant_text
from crossline.evaluate.alerts.alert_json import json_bytes, number_of
from crossline.io.postgres.text_escapes import MARK, escape, escape_value, indexed
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.decisions import Decisions

Row = tuple[Any, ...]

# Of partitioned tables: the column whose month selects the partition.
PARTITIONED = {
    "alerts": "event_time",
    "decisions": "event_time",
    "dead_letters": "delivered_at",
    "late_records": "delivered_at",
    "batches": "delivered_at",
}
_MARK = (("delivered_at", "timestamptz"), ("pipeline", "text"), ("batch_id", "bigint"))
# The columns that a delivery fills, with their types; in this order tables are written.
TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "alerts": (
        *(("alert_id", "text"), ("kind", "text"), ("rule_id", "text"), ("rule_version", "bigint")),
        *(("rule_type", "text"), ("severity", "text"), ("score", "double precision"), ("action", "text")),
        *(("entities", "text[]"), ("stream", "text"), ("record_id", "text"), ("event_time", "timestamptz")),
        *(("ingest_time", "timestamptz"), ("value", "double precision"), ("threshold", "double precision")),
        *(("message", "text"), ("corrects", "text"), ("outcome", "text"), ("detected_at", "timestamptz")),
        *(("at_partition", "text"), ("at_offset", "bigint"), ("body", "json")),
        *_MARK,
    ),
    "decisions": (
        *(("decision_id", "text"), ("kind", "text"), ("decision", "text"), ("score", "double precision")),
        *(("policy_version", "bigint"), ("revision", "bigint"), ("revises", "text"), ("because", "text")),
        *(("stream", "text"), ("record_id", "text"), ("event_time", "timestamptz"), ("decided_at", "timestamptz")),
        ("body", "json"),
        *_MARK,
    ),
    "dead_letters": (
        *(("stream", "text"), ("partition", "text"), ("offset", "bigint"), ("reason", "text"), ("detail", "text")),
        *(("record_id", "text"), ("raw", "bytea")),
        *_MARK,
    ),
    "late_records": (
        *(("stream", "text"), ("partition", "text"), ("offset", "bigint"), ("record_id", "text")),
        *(("event_time", "timestamptz"), ("ingest_time", "timestamptz"), ("lateness_ms", "bigint"), ("raw", "bytea")),
        *_MARK,
    ),
    "rule_events": (
        *(("rule_id", "text"), ("version", "bigint"), ("event", "text"), ("body", "json")),
        *_MARK,
    ),
    "batches": (
        *(("alerts", "bigint"), ("decisions", "bigint"), ("dead_letters", "bigint"), ("late_records", "bigint")),
        ("figures", "json"),
        *_MARK,
    ),
}


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table, each under its identity with the month that it is of, in the order of their delivery.

    An identity is a UUID as 32 hexadecimal digits, a month its first day as ``2026-11-01``.
    """

    table: str
    rows: dict[str, tuple[str, Row]]

    @property
    def months(self) -> set[date]:
        """The first days of the months that rows are of."""
        return {date.fromisoformat(month) for month in {month for month, _ in self.rows.values()}}


def rows_of(delivery: Delivery, now_ms: int) -> list[TableRows]:
    """The rows of each table; of two rows with one identity the first."""
    now = instant_text(now_ms)
    mark = (now, indexed(delivery.pipeline), delivery.batch_id)
    made = {
        "alerts": _alerts(delivery, now, mark),
        "decisions": _decisions(delivery, mark),
        "dead_letters": _dead(delivery, mark),
        "late_records": _late(delivery, mark),
        "rule_events": _rules(delivery, mark),
        "batches": _batch(delivery, mark),
    }
    found = []
    for table, each in made.items():
        at = [name for name, _ in TABLES[table]].index(PARTITIONED.get(table, "delivered_at"))
        rows: dict[str, tuple[str, Row]] = {}
        start = _identity_start(delivery.pipeline, table)
        for name, row in each:
            rows.setdefault(_identity(start, name), (_month(row[at]), row))
        if rows:
            found.append(TableRows(table, rows))
    return found


def entity(name: str, value: Any) -> str:
    """A field of a key with its value, as it stands in ``entities``; a value is written as JSON writes it."""
    text = value if isinstance(value, str) else json_bytes(value).decode()
    return indexed(f"{name.replace(_ESCAPE, _ESCAPE * 2).replace('=', _ESCAPE + '=')}={text}")


_ESCAPE = "\\"


def _identity_start(pipeline: str, table: str) -> bytes:
    """What the encoded names of all items of a table begin with (see ``_identity``)."""
    return json.dumps([pipeline, table])[:-1].encode()


def _identity(start: bytes, name: Sequence[object]) -> str:
    """The 128-bit identity of an item: a digest of its pipeline, its table and its name, as a JSON list.

    Stored identities must stay the same, so that list is as ``json.dumps`` writes it: with a space behind each comma,
    and with escapes for all that is not ASCII, since no text is beyond those.
    """
    encoded = "".join([f", {_quoted(each) if isinstance(each, str) else json.dumps(each)}" for each in name])
    return hashlib.blake2b(start + encoded.encode() + b"]", digest_size=16).hexdigest()


_quoted = json.encoder.encode_basestring_ascii


def _month(instant: str) -> str:
    return _first_day(instant[:7])


@lru_cache(maxsize=1_000)
def _first_day(month: str) -> str:
    return date(int(month[:4]), int(month[5:7]), 1).isoformat()


def _text(value: Any) -> str | None:
    return None if value is None else escape(str(value))


def _name(value: Any) -> str | None:
    """A name in an indexed column."""
    return None if value is None else indexed(str(value))


def _json(value: Any) -> str:
    try:
        encoded = json_bytes(value)
    except TypeError:  # half a surrogate pair
        encoded = _NUL
    return _held(encoded, value)


def _bodies(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    if isinstance(decisions, Decisions):
        return [_held(line, each) for line, each in zip(decisions.lines(), decisions, strict=True)]
    return [_json(each) for each in decisions]


def _held(encoded: bytes, value: Any) -> str:
    """``value``, which ``encoded`` is, as JSON that the database holds."""
    return (json_bytes(escape_value(value)) if _NUL in encoded or _MARK_BYTES in encoded else encoded).decode()


_NUL, _MARK_BYTES = rb"\u0000", MARK.encode()  # as they stand in JSON


def _instant(value: Any) -> str:
    """An instant of an alert as the database reads it too; raises ValueError where it is none."""
    read = datetime.fromisoformat(value)
    return str(value) if read.tzinfo is not None else read.replace(tzinfo=UTC).isoformat()


def _alerts(delivery: Delivery, now: str, mark: Row) -> Iterator[tuple[Row, Row]]:
    positions: Sequence[tuple[str | None, int | None]] = delivery.positions or [(None, None)] * len(delivery.alerts)
    for alert, (partition, offset) in zip(delivery.alerts, positions, strict=True):
        a: Mapping[str, Any] = {**alert, "delivered_at": now}
        row = (
            *(_name(a["alert_id"]), _text(a["kind"]), _name(a["rule_id"])),
            a["rule_version"],
            *map(_text, (a["rule_type"], a["severity"])),
            a["score"],
            _text(a["action"]),
            [entity(name, value) for name, value in a["key"].items()],
            *(_text(a["stream"]), _name(a["record_id"])),
            *map(_instant, (a["event_time"], a["ingest_time"])),
            *(None if (number := number_of(a[name])) is None else float(number) for name in ("value", "threshold")),
            *(_text(a["message"]), _name(a.get("corrects")), _text(a.get("outcome"))),
            a["detected_at"],
            *(_text(partition), offset, _json(a)),
            *mark,
        )
        yield (a["alert_id"],), row


def _decisions(delivery: Delivery, mark: Row) -> Iterator[tuple[Row, Row]]:
    for d, body in zip(delivery.decisions, _bodies(delivery.decisions), strict=True):
        row = (
            *(_name(d["decision_id"]), _text(d.get("kind", "decision")), _text(d["decision"])),
            *(d["score"], d["policy_version"], d.get("revision", 0)),
            *(_name(d.get("revises")), _text(d.get("because")), _text(d["stream"]), _name(d["record_id"])),
            *(_instant(d["event_time"]), d.get("decided_at"), body),
            *mark,
        )
        yield (d["decision_id"],), row


def _dead(delivery: Delivery, mark: Row) -> Iterator[tuple[Row, Row]]:
    for d in delivery.dead:
        # As in ``sinks.identity``: the bytes count only where there is no record id.
        raw = hashlib.blake2b(d.raw or b"", digest_size=16).hexdigest() if d.record_id is None else None
        name = (d.stream, d.partition, d.offset, d.reason, d.record_id, raw)
        what = (_name(d.reason), _text(d.detail), _name(d.record_id), d.raw)
        yield name, (_text(d.stream), _text(d.partition), d.offset, *what, *mark)


def _late(delivery: Delivery, mark: Row) -> Iterator[tuple[Row, Row]]:
    for r in delivery.late:
        times = (instant_text(r.event_ms), instant_text(r.ingest_ms), r.lateness_ms)
        name = (r.stream, r.partition, r.offset, r.record_id)
        yield name, (_text(r.stream), _text(r.partition), r.offset, _name(r.record_id), *times, r.raw, *mark)


def _rules(delivery: Delivery, mark: Row) -> Iterator[tuple[Row, Row]]:
    for event in delivery.rule_events:
        body = json.dumps(escape_value(event), sort_keys=True, ensure_ascii=False, default=str)
        row = (_name(event.get("rule_id")), event.get("version"), _text(event.get("event")), body, *mark)
        yield (body,), row


def _batch(delivery: Delivery, mark: Row) -> Iterator[tuple[Row, Row]]:
    sizes = (len(delivery.alerts), len(delivery.decisions), len(delivery.dead), len(delivery.late))
    yield (delivery.batch_id,), (*sizes, _json(dict(delivery.figures)), *mark)
