"""Payments for the tests of what runs over a sample, and rules over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.trial import as_if_active
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Rule
from crossline.rules.rule_reader import load_rules_text

START_MS = 1_767_225_600_000
STREAM_TEXT = """\
schema_version: 1
streams:
  payments:
    id: payment_id
    event_time: {field: at}
    fields: {payment_id: string, card: string, status: string?, amount: integer?, at: integer}
"""
STREAMS = load_streams(STREAM_TEXT, "stream.yaml")


def payment(number: int, second: float, card: str, amount: int | None = 10, status: str = "ok") -> dict[str, Any]:
    """Payment ``p<number>``, so many seconds after the start."""
    at = START_MS + round(1000 * second)
    return {"payment_id": f"p{number}", "card": card, "amount": amount, "status": status, "at": at}


def write(path: Path, payments: Iterable[Mapping[str, Any]]) -> Path:
    """A file of them, in the order given."""
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in payments))
    return path


def count_rule(**more: Any) -> dict[str, Any]:
    """Two payments of a card within a minute."""
    return {
        "rule_id": "many",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "card",
        "aggregation_type": "count",
        "window": "1m",
        "aggregation_threshold": 2,
        **more,
    }


def loaded(*bodies: Mapping[str, Any]) -> list[Rule]:
    """The rules of these bodies."""
    return [each.rule for each in load_rules_text(orjson.dumps(bodies).decode(), "rules.yaml", STREAMS)]


def judged(path: Path, *bodies: Mapping[str, Any]) -> BacktestSpec:
    """These rules over the file."""
    return BacktestSpec(
        as_if_active(loaded(*bodies)), RecordedInput(STREAMS, {"payments": [str(path)]}), bounds=Bounds(60_000)
    )
