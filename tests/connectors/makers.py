"""Alerts and deliveries for tests, and waits on sinks."""

from __future__ import annotations

from typing import Any

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink


def alert(record: str, **changes: Any) -> dict[str, Any]:
    """The alert of the example, for record ``record``, with id ``id-<record>`` and with ``changes``."""
    return {
        "schema_version": 1,
        "alert_id": f"id-{record}",
        "kind": "alert",
        "rule_id": "card_burst",
        "rule_version": 3,
        "rule_type": "velocity",
        "severity": "high",
        "score": 40,
        "action": "step_up",
        "key": {"account_id": "a1"},
        "stream": "payments",
        "record_id": record,
        "event_time": "2026-01-01T00:00:07.120Z",
        "ingest_time": "2026-01-01T00:00:07.180Z",
        "value": 10,
        "operator": ">=",
        "threshold": 10,
        "window_start": "2025-12-31T23:59:07.120Z",
        "window_end": "2026-01-01T00:00:07.120Z",
        "evidence": {"count": 10, "record_ids": ["t1", "t2", record]},
        "message": "10 payments by account a1 in 60 s (line: 10)",
        "corrects": None,
        "detected_at": "2026-01-01T00:00:07.300Z",
        "delivered_at": None,
        **changes,
    }


def delivery(batch_id: int, *records: str) -> Delivery:
    """Batch ``batch_id`` of pipeline p with one alert for each of ``records``."""
    return Delivery("p", batch_id, alerts=[alert(record) for record in records])


def waits_ms(sink: SqliteSink) -> list[int]:
    """Grows by each statement that ``sink`` begins: how long that may wait for others, which SQLite sees to."""
    connection = sink._connection
    assert connection is not None
    bound_ms = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    found: list[int] = []

    def begun(statement: str) -> None:
        nonlocal bound_ms
        if statement.startswith("PRAGMA busy_timeout = "):
            bound_ms = int(statement.rpartition("=")[2])
        else:
            found.append(bound_ms)

    connection.set_trace_callback(begun)
    return found
