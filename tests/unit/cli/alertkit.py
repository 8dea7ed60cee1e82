"""A few alerts and dead letters."""

from __future__ import annotations

from typing import Any

from crossline.basics.deadletter import DeadLetter


def alert(alert_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "alert_id": alert_id,
        "kind": "alert",
        "rule_id": "card_burst",
        "rule_version": 3,
        "rule_type": "velocity",
        "severity": "high",
        "score": 40,
        "action": "step_up",
        "key": {"account_id": "a1"},
        "stream": "payments",
        "record_id": "t0000007",
        "event_time": "2026-01-01T00:00:07.120Z",
        "ingest_time": "2026-01-01T00:00:07.180Z",
        "value": 10,
        "operator": ">=",
        "threshold": 10,
        "window_start": "2025-12-31T23:59:07.120Z",
        "window_end": "2026-01-01T00:00:07.120Z",
        "evidence": {"count": 73, "record_ids": ["t0000005", "t0000006", "t0000007"]},
        "message": "10 payments by account a1 in 60 s (line: 10)",
        "corrects": None,
        "detected_at": "2026-01-01T00:00:07.300Z",
        "delivered_at": None,
        **changes,
    }


ALERTS = [
    alert("11aa0000-0000-5000-8000-000000000001"),
    alert(
        "11ab0000-0000-5000-8000-000000000002",
        rule_id="big_payment",
        severity="low",
        key={"account_id": "a2", "vip": True},
        event_time="2026-01-01T00:00:08.000Z",
        message="payment where amount_cents >= 1000",
    ),
    alert("2cdd0000-0000-5000-8000-000000000003", kind="shadow", event_time="2026-01-01T00:00:09.000Z"),
]
DEAD = [
    DeadLetter("payments", "bad_json", "unexpected end", "in/a.jsonl", 120, b'{"amount": 1'),
    DeadLetter("payments", "bad_json", "not UTF-8", "in/a.jsonl", 180, b"\xff\xfe"),
    DeadLetter("payments", "duplicate_id", "came before", "in/a.jsonl", 240, None, "t1"),
]
