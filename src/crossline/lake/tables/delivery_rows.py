"""From what batches gave to rows of the lake: alerts, decisions, rule events, dead letters, late records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from crossline.basics.times import format_instant, parse_instant_ms
from crossline.evaluate.alerts.alert_json import json_bytes, number_of
from crossline.io.outbox.batch_spool import SpooledBatch
from crossline.lake.tables.table_layouts import (
    ALERTS,
    BATCH,
    CHECKPOINT,
    CORRECTIONS,
    DEAD_LETTERS,
    DECISIONS,
    DELIVERED,
    LATE_RECORDS,
    RULE_EVENTS,
    TableLayout,
)

Row = dict[str, Any]
_US = 1_000


def delivery_rows(batches: Sequence[SpooledBatch], *, decisions: bool = True) -> dict[TableLayout, pa.Table]:
    """The rows of each table for ``batches``, in their order; tables without rows are left out.

    ``decisions``: whether those of batches are wanted. Every alert is kept: shadow alerts (by their ``kind``) and those
    of rules that only feed other rules too.
    """
    rows: dict[TableLayout, list[Row]] = {}
    for batch in batches:
        common = {
            BATCH: batch.number,
            CHECKPOINT: batch.delivery.checkpoint,
            DELIVERED: batch.delivered_ms * _US,
        }
        for layout, found in _rows_of(batch, decisions=decisions):
            rows.setdefault(layout, []).append({**found, **common})
    return {layout: rows_table(layout, found) for layout, found in rows.items()}


def rows_table(layout: TableLayout, rows: Iterable[Row]) -> pa.Table:
    """``rows`` as a table of ``layout``; an instant is in microseconds of the epoch."""
    return pa.Table.from_pylist(list(rows), schema=layout.schema)


def _rows_of(batch: SpooledBatch, *, decisions: bool) -> Iterator[tuple[TableLayout, Row]]:
    delivery, delivered = batch.delivery, format_instant(batch.delivered_ms)
    places: Sequence[tuple[str | None, int | None]] = delivery.positions or [(None, None)] * len(delivery.alerts)
    for alert, (log, position) in zip(delivery.alerts, places, strict=True):
        row = _alert({**alert, "delivered_at": delivered}, log, position)
        yield (CORRECTIONS if alert["corrects"] is not None else ALERTS), row
    for decision in delivery.decisions if decisions else ():
        yield DECISIONS, decision_row(dict(decision))
    for event in delivery.rule_events:
        yield RULE_EVENTS, _rule_event(event)
    for letter in delivery.dead:
        yield (
            DEAD_LETTERS,
            {
                **_position(letter.stream, letter.partition, letter.offset, letter.record_id),
                "reason": letter.reason,
                "detail": letter.detail,
                "raw": letter.raw,
                "planned_at": (delivery.began_ms or batch.delivered_ms) * _US,
            },
        )
    for late in delivery.late:
        yield (
            LATE_RECORDS,
            {
                **_position(late.stream, late.partition, late.offset, late.record_id),
                "event_time": late.event_ms * _US,
                "ingest_time": late.ingest_ms * _US,
                "lateness_ms": late.lateness_ms,
                "raw": late.raw,
            },
        )


def alert_row(alert: Mapping[str, Any]) -> Row:
    """The row of an alert or a correction whose position is not known."""
    return _alert(alert, None, None)


def _position(stream: str, log: str, position: int, record_id: str | None) -> Row:
    return {"stream": stream, "log": log, "position": position, "record_id": record_id}


_AS_THEY_ARE = (
    *("alert_id", "kind", "rule_id", "rule_version", "rule_type", "severity", "action", "stream", "record_id"),
    *("operator", "message", "outcome", "caused_by", "corrects"),
)
_INSTANTS = ("event_time", "ingest_time", "window_start", "window_end", "detected_at")
_NUMBERS = ("score", "value", "threshold", "value_before")


def _alert(alert: Mapping[str, Any], log: str | None, position: int | None) -> Row:
    """An alert's row. ``body`` is the alert itself; ``value`` is the nearest double of a larger integer."""
    row: Row = {name: alert.get(name) for name in _AS_THEY_ARE}
    row |= {name: _instant(alert.get(name)) for name in _INSTANTS}
    row |= {name: _number(alert.get(name)) for name in _NUMBERS}
    row["key"] = orjson.dumps(alert["key"], option=orjson.OPT_SORT_KEYS).decode()
    row["record_ids"] = alert["evidence"]["record_ids"]
    row["body"] = json_bytes(alert).decode()
    return {**row, "log": log, "position": position}


def decision_row(decision: Mapping[str, Any]) -> Row:
    """A decision's row; ``body`` is the decision itself."""
    names = ("decision_id", "kind", "decision", "policy_version", "rules_digest", "stream", "record_id", "answered")
    row: Row = {name: decision.get(name) for name in names}
    row |= {name: _instant(decision.get(name)) for name in ("event_time", "ingest_time", "decided_at")}
    row["score"] = _number(decision.get("score"))
    row["rule_ids"] = [each["rule_id"] for each in decision.get("reasons", ()) if each.get("rule_id")]
    row |= {"receipt": decision.get("receipt"), "revises": decision.get("revises")}
    row["body"] = json_bytes(dict(decision)).decode()
    return row


def _rule_event(event: Mapping[str, Any]) -> Row:
    names = ("event", "rule_id", "version", "status", "list_name", "table_name", "who")
    row: Row = {name: event.get(name) for name in names}
    row["at"] = _instant(event.get("at"))
    effective_ms = event.get("effective_from_ms")
    row["effective_from"] = None if effective_ms is None else effective_ms * _US
    row["body"] = orjson.dumps(dict(event), option=orjson.OPT_SORT_KEYS).decode()
    return row


def _instant(text: str | None) -> int | None:
    return None if text is None else parse_instant_ms(text) * _US


def _number(value: float | str | None) -> float | None:
    found = number_of(value)
    return None if found is None else float(found)
