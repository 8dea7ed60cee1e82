"""Records held against the last context of their key: those without one wait for it, however the streams are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from .fastpath import FastPath, plans_of, stream_spec
from .strategies import Body, Record
from .test_detect_equals_naive import at_instants, many, run, shapes
from .test_stream_join import OTHER, draw_joined, other_spec

WINDOW_MS, ALLOWED_MS = 3000, 5000
RULE: Body = {
    "rule_id": "off",
    "version": 1,
    "rule_type": "correlation",
    "source_topic": "payments",
    "context_topic": OTHER,
    "correlation_key": {"primary": "account", "context": "owner"},
    "window": f"{WINDOW_MS}ms",
    "context_resolution": "last",
    "context_value_field": "amount",
    "event_value_field": "amount",
    "metric": "difference",
    "condition": {"operator": ">=", "value": 0},
    "watermark_delay": "1s",
    "allowed_lateness": f"{ALLOWED_MS}ms",
}

AlertValues = tuple[str, str, Any]


def _in_time(record: Record) -> bool:
    return bool(record["_ingest_ms"] - record["_event_ms"] <= ALLOWED_MS)


def naive(made: Sequence[Record]) -> list[AlertValues]:
    """The record, the context that counts, and how far they are apart, for each that is at or above it."""
    reported: list[AlertValues] = []
    contexts: list[Record] = []
    waiting: list[Record] = []
    judged: set[tuple[str, str]] = set()

    def judge(record: Record, context: Record) -> None:
        if record.get("amount") is not None and record["amount"] >= context["amount"]:
            reported.append((record["_id"], context["_id"], record["amount"] - context["amount"]))

    def is_of(context: Record, record: Record) -> bool:
        back_ms = record["_event_ms"] - context["_event_ms"]
        return bool(context["owner"] == record["account"] and 0 <= back_ms <= WINDOW_MS)

    for record in made:
        if not _in_time(record):
            continue
        if "_stream" in record:
            if record.get("owner") is None or record.get("amount") is None:
                continue
            contexts.append(record)
            for each in [w for w in waiting if is_of(record, w)]:
                waiting.remove(each)
                judge(each, record)
        elif record.get("account") is not None and (record["_id"], record["account"]) not in judged:
            judged.add((record["_id"], record["account"]))
            mine = [(c["_event_ms"], place, c) for place, c in enumerate(contexts) if is_of(c, record)]
            if mine:
                judge(record, max(mine, key=lambda each: each[:2])[2])
            else:
                waiting.append(record)
    return sorted(reported, key=str)


@many
@given(st.data(), st.booleans(), st.integers(1, 2))
def test_the_last_context_counts_and_is_waited_for(data: st.DataObject, ingest_column: bool, pieces: int) -> None:
    made, logs = data.draw(draw_joined(ingest_column=ingest_column))
    shape = at_instants(data.draw(shapes(len(made))), made)
    others = {OTHER: other_spec(ingest_column=ingest_column)}
    path = FastPath.of(plans_of([RULE], stream_spec(ingest_column=ingest_column), {}, others=others), shape.shards)
    path.streams[OTHER] = OTHER
    run(path, shape, made, logs, pieces)
    found = [
        (alert["record_id"], alert["evidence"]["context"]["record_ids"][-1], alert["value"]) for alert in path.alerts
    ]
    assert sorted(found, key=str) == naive(made)
