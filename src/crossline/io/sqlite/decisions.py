"""Decisions in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from crossline.io.sinks.base import Delivery
from crossline.io.sinks.decisions import json_lines

# The first of two of one id stays, as with alerts.
_DECISION = """
INSERT INTO decisions (decision_id, decision, score, policy_version, stream, record_id, event_time, delivered_at,
    pipeline, batch_id, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (decision_id, pipeline) DO NOTHING"""
_OF_DECISION = ("decision_id", "decision", "score", "policy_version", "stream", "record_id", "event_time")


def store_decisions(connection: sqlite3.Connection, delivery: Delivery, now: str) -> None:
    """Put the decisions of ``delivery`` that are not there yet into the store, within its transaction."""
    connection.executemany(_DECISION, _rows(delivery, now))


def _rows(delivery: Delivery, now: str) -> Iterator[tuple[object, ...]]:
    for decision, line in zip(delivery.decisions, json_lines(delivery.decisions), strict=True):
        named = (decision[name] for name in _OF_DECISION)
        yield (*named, now, delivery.pipeline, delivery.batch_id, line.decode())
