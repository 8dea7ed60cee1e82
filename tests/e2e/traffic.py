"""Made traffic with what streams really have: disorder, late and very late records, repeats, missing values, ties."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from oracle.composed import composed_detect
from oracle.naive import NaiveResult, running_max_ingest

Body = dict[str, Any]
Record = dict[str, Any]

STREAM = "payments"
BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DEFAULTS = {"watermark_delay": "5s", "allowed_lateness": "20s"}
STREAMS: Body = {
    STREAM: {
        "format": "json",
        "id": "id",
        "event_time": {"field": "event_time", "unit": "ms"},
        "fields": {
            "id": "string",
            "account": "string",
            "device": "integer?",
            "amount": "integer",
            "price": "number?",
            "kind": "string",
            "event_time": "integer",
        },
    }
}
# In steps of the disorder; most records come at once, some late, few later than any rule waits.
LATENESS_MS = [0] * 12 + [500, 1_000, 2_000, 4_000, 6_000, 12_000, 19_000, 40_000]


def records(count: int, seed: int, first: int = 0) -> list[Record]:
    """``count`` records in the order of their log, about one a second; every 40th repeats one before it."""
    draw = random.Random(seed)
    made: list[Record] = []
    now_ms = BASE_MS
    for number in range(first, first + count):
        now_ms += draw.choice([0, 0, 500, 1_000, 1_500, 2_000])
        record: Record = {
            "id": f"t{number:06d}",
            "account": f"a{min(draw.randrange(12), draw.randrange(12))}",
            "amount": draw.choice([1, 5, 20, 100, 250]),
            "kind": draw.choice(["card", "cash", "web"]),
            "event_time": now_ms - draw.choice(LATENESS_MS),
        }
        if draw.random() < 0.7:
            record["device"] = draw.randrange(4)
        if draw.random() < 0.8:
            record["price"] = draw.choice([0.1, 0.2, 0.3, 1e16, -1e16, 2.5])
        if number % 40 == 39:
            record = {**draw.choice(made[-20:]), "amount": 7}
        made.append(record)
    return made


def lines(items: Iterable[Mapping[str, Any]]) -> bytes:
    """As JSON lines."""
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def velocity(rule_id: str, aggregate: str = "count", threshold: float = 3, **more: Any) -> Body:
    """A velocity rule on STREAM: by account over 30 s by default."""
    return {
        "rule_id": rule_id,
        "version": 1,
        "rule_type": "velocity",
        "source_topic": STREAM,
        "group_by": "account",
        "window": "30s",
        "aggregation_type": aggregate,
        "aggregation_threshold": threshold,
        **more,
    }


SPREAD = "spread"
CASH = [{"field": "kind", "operator": "==", "value": "cash"}]
RULES: list[Body] = [
    velocity("burst", threshold=5),
    velocity("every_sum", "sum", 300, aggregation_field="amount", emit="every"),
    velocity("prices", "avg", 0.2, aggregation_field="price", operator=">"),
    velocity("many_kinds", "distinct_count", 3, aggregation_field="kind", window="60s", cooldown="20s"),
    velocity("cash_by_device", conditions=CASH, group_by=["account", "device"], window="2m", threshold=2),
    velocity(SPREAD, "stddev", 90, aggregation_field="amount", group_by="device", emit_mode="window"),
    velocity("others", "max", 200, aggregation_field="amount", bounds="[)", window="20s"),
    velocity("all", threshold=40, group_by=[], window="30s"),
    velocity("as_it_came", threshold=4, time_mode="processing_time", window="10s"),
    velocity("in_time", threshold=4, late_policy="skip", watermark_delay="2s"),
    velocity("watched", "last", 250, aggregation_field="amount", status="shadow"),
    {
        "rule_id": "large_cash",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": STREAM,
        "conditions": [*CASH, {"field": "amount", "operator": ">=", "value": 250}],
    },
    velocity("sums_of_one_device", source_topic="rule:every_sum", group_by="device", window="1m"),
    {
        "rule_id": "sums_at_last",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": "rule:sums_of_one_device",
        "conditions": [
            {"field": "hit.value", "operator": ">=", "value": 3},
            {"field": "amount", "operator": ">", "value": 5},
        ],
    },
]

# What reads the stream alone, for tests that judge at one level.
OF_RECORDS = [body for body in RULES if body["source_topic"] == STREAM]


def expected(rules: list[Body], log: list[Record]) -> NaiveResult:
    """What the naive twin finds in ``log``, the lines of all files in order."""
    ingest = running_max_ingest([record["event_time"] for record in log])
    judged = [
        {**record, "_id": record["id"], "_event_ms": record["event_time"], "_ingest_ms": ms}
        for record, ms in zip(log, ingest, strict=True)
    ]
    return composed_detect(rules, judged, defaults=DEFAULTS)
