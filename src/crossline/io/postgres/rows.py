"""Converts a delivery to rows of the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from psycopg import Copy

from crossline.basics.times import instant_text
from crossline.evaluate.alerts.alert_json import json_bytes, number_of
from crossline.io.postgres.decision_rows import DecisionRows
from crossline.io.postgres.delivered import identity, identity_start, instant_of, micros_of, month_of
from crossline.io.postgres.stored_rows import StoredRows
from crossline.io.postgres.text_escapes import escape, escape_value, held, indexed
from crossline.io.sinks.base import Delivery

Row = tuple[Any, ...]

# Of partitioned tables: the column whose month selects the partition.
PARTITIONED = {
    "alerts": "event_time",
    "decisions": "event_time",
    "dead_letters": "delivered_at",
    "late_records": "delivered_at",
    "batches": "delivered_at",
}
_MARK = ("delivered_at", "pipeline", "batch_id")
# The columns that a delivery fills, in the order in which rows have them.
TABLES: dict[str, tuple[str, ...]] = {
    "alerts": (
        *("alert_id", "kind", "rule_id", "rule_version", "rule_type", "severity", "score", "action", "entities"),
        *("stream", "record_id", "event_time", "ingest_time", "value", "threshold", "message", "corrects", "outcome"),
        *("detected_at", "at_partition", "at_offset", "body", *_MARK),
    ),
    DecisionRows.table: DecisionRows.columns,
    "dead_letters": ("stream", "partition", "offset", "reason", "detail", "record_id", "raw", *_MARK),
    "late_records": (
        *("stream", "partition", "offset", "record_id", "event_time", "ingest_time", "lateness_ms", "raw"),
        *_MARK,
    ),
    "rule_events": ("rule_id", "version", "event", "body", *_MARK),
    "batches": ("alerts", "decisions", "dead_letters", "late_records", "figures", *_MARK),
}


class TableRows(StoredRows):
    """Rows of ``table``, of two with one name the first."""

    form = ""

    def __init__(self, table: str, pipeline: str, named: Iterable[tuple[Row, Row]]) -> None:
        self.table = table
        self.columns = TABLES[table]
        at = self.columns.index(PARTITIONED.get(table, "delivered_at"))
        start = identity_start(pipeline, table)
        found: dict[bytes, Row] = {}
        for name, row in named:
            found.setdefault(identity(start, name), row)
        self._rows, self.identities = list(found.values()), list(found)
        self.months = [month_of(row[at]) for row in self._rows]
        self.micros = np.array([micros_of(instant_of(row[at])) for row in self._rows], np.int64)

    def write(self, copy: Copy, numbers: Sequence[int] | None = None) -> None:
        """Give the server the rows with these numbers, by default all."""
        for row in self._rows if numbers is None else [self._rows[number] for number in numbers]:
            copy.write_row(row)


def rows_of(delivery: Delivery, now_ms: int) -> list[StoredRows]:
    """The rows of each table that has any; of two rows with one identity the first."""
    now = instant_text(now_ms)
    mark = (now, indexed(delivery.pipeline), delivery.batch_id)
    made = {
        "alerts": _alerts(delivery, now, mark),
        "dead_letters": _dead(delivery, mark),
        "late_records": _late(delivery, mark),
        "rule_events": _rules(delivery, mark),
        "batches": _batch(delivery, mark),
    }
    found: list[StoredRows] = [TableRows(table, delivery.pipeline, named) for table, named in made.items()]
    found.insert(1, DecisionRows(delivery.decisions, now_ms, delivery.pipeline, delivery.batch_id))
    return [each for each in found if each.identities]


def entity(name: str, value: Any) -> str:
    """A field of a key with its value, as it stands in ``entities``; a value is written as JSON writes it."""
    text = value if isinstance(value, str) else json_bytes(value).decode()
    return indexed(f"{name.replace(_ESCAPE, _ESCAPE * 2).replace('=', _ESCAPE + '=')}={text}")


_ESCAPE = "\\"


def _text(value: Any) -> str | None:
    return None if value is None else escape(str(value))


def _name(value: Any) -> str | None:
    """A name in an indexed column."""
    return None if value is None else indexed(str(value))


def _json(value: Any) -> str:
    try:
        encoded = json_bytes(value)
    except TypeError:  # half a surrogate pair
        return json_bytes(escape_value(value)).decode()
    return held(encoded, value).decode()


def _instant(value: Any) -> str:
    """An instant of an alert as the database reads it too; raises ValueError where it is none."""
    return str(value) if datetime.fromisoformat(value).tzinfo is not None else instant_of(value).isoformat()


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
