"""Sums beyond 64 bits, and infinite ones, are stored exactly in every sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossline.io.sinks.base import Delivery, build_sink
from crossline.io.sqlite.reader import StoreReader
from crossline.io.stores.protocol import AlertFilter

INSTANT = "2026-01-01T00:00:00.000Z"


def alert(value: Any) -> dict[str, Any]:
    """As an alert maker makes one, of what these sinks look at."""
    rule = {"rule_id": "spent", "rule_version": 1, "rule_type": "velocity", "severity": "high", "score": 1}
    times = {"event_time": INSTANT, "ingest_time": INSTANT, "detected_at": INSTANT}
    body = {"action": "review", "key": {"account": "a1"}, "stream": "payments", "record_id": "r1", "message": "much"}
    figures = {"value": value, "threshold": 100, "evidence": {"count": 1, "record_ids": ["r1"]}}
    return {"alert_id": "a1", "kind": "alert", **rule, **times, **body, **figures}


@pytest.mark.parametrize("value", [2**63, 2**64, -(2**80), "Infinity", "-Infinity"])
def test_a_value_is_kept_to_the_last_digit(value: Any, tmp_path: Path) -> None:
    kinds = {"sqlite": "alerts.db", "jsonl": "alerts.jsonl"}
    for kind, name in kinds.items():
        sink = build_sink({"kind": kind, "path": str(tmp_path / name)}, "p")
        sink.open()
        sink.deliver(Delivery("p", 0, alerts=[alert(value)]))
        sink.close()
    reader = StoreReader(tmp_path / "alerts.db")
    stored = [kept["value"] for kept in reader.alerts(AlertFilter())]
    assert stored == [kept.alert["value"] for kept in reader.find("a1")] == [value]
    reader.close()
    (line,) = (tmp_path / "alerts.jsonl").read_bytes().splitlines()
    assert json.loads(line)["value"] == value
