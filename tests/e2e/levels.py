"""Two streams and rules over both: what waits, what is in order, of several keys, judged again, and read by others."""

from __future__ import annotations

import random
from typing import Any

from oracle.naive import running_max_ingest

from .traffic import BASE_MS, CASH, LATENESS_MS, STREAM, STREAMS, Body, Record, records, velocity

Log = list[tuple[int, str, Record]]
LEVELS = "levels"
BOTH: Body = {
    **STREAMS,
    LEVELS: {
        "format": "json",
        "id": "id",
        "event_time": {"field": "event_time", "unit": "ms"},
        "fields": {"id": "string", "owner": "string", "level": "integer", "event_time": "integer"},
    },
}
HIGH = [{"field": "level", "operator": ">", "value": 50}]
LARGE = [{"field": "amount", "operator": ">=", "value": 100}]


def _rule(rule_id: str, rule_type: str, **more: Any) -> Body:
    return {"rule_id": rule_id, "version": 1, "rule_type": rule_type, "source_topic": STREAM, **more}


RULES: list[Body] = [
    _rule(
        "above",
        "correlation",
        context_topic=LEVELS,
        correlation_key={"primary": "account", "context": "owner"},
        window="6s",
        context_resolution="last",
        context_value_field="level",
        event_value_field="amount",
        metric="difference",
        condition={"operator": ">", "value": 0},
        action="review",
        score=10,
    ),
    _rule(
        "level_then_cash",
        "sequence",
        within="30s",
        group_by="account",
        steps=[
            {"name": "level", "source_topic": LEVELS, "group_by": "owner", "conditions": HIGH},
            {"name": "cash", "conditions": CASH},
        ],
    ),
    _rule(
        "device_of_account",
        "formula",
        figures={
            "mine": {"count": True, "group_by": "account", "window": "30s"},
            "theirs": {"sum": "amount", "group_by": "device", "window": "30s"},
        },
        when="mine >= 2 and theirs >= 400",
        value="theirs",
        emit="every",
        action="step_up",
        score=5,
    ),
    _rule(
        "device_again",
        "formula",
        figures={
            "mine": {"count": True, "group_by": "account", "window": "10s"},
            "theirs": {"sum": "amount", "group_by": "device", "window": "20s"},
        },
        when="mine >= 2 and theirs >= 300",
        value="theirs",
        late_policy="reevaluate",
    ),
    _rule("no_cash", "absence", group_by="account", after=LARGE, expect=CASH, within="15s"),
    {
        "rule_id": "together",
        "version": 1,
        "rule_type": "composite",
        "any_of": ["above", "no_cash", "device_of_account"],
        "at_least": 2,
        "join_key": "account",
        "window": "1m",
    },
    velocity("often", threshold=3, window="10s", late_policy="reevaluate", action="block", score=40),
    velocity("often_by_kind", source_topic="rule:often", group_by="kind", window="1m", threshold=2),
]


def made(count: int, seed: int) -> Log:
    """``count`` records of each stream with their ingest times, in the order in which they come."""
    draw, found = random.Random(seed), Log()
    payments = records(count, seed)
    last_s = (max(each["event_time"] for each in payments) - BASE_MS) // 1_000
    levels: list[Record] = [
        {
            "id": f"l{number:04d}",
            "owner": f"a{draw.randrange(10)}",
            "level": draw.choice([1, 20, 99, 200]),
            "event_time": BASE_MS + 1_000 * second - draw.choice(LATENESS_MS),
        }
        for number, second in enumerate(sorted(draw.randrange(last_s) for _ in range(count)))
    ]
    for name, log in ((LEVELS, levels), (STREAM, payments)):
        ingest = running_max_ingest([each["event_time"] for each in log])
        found += [(ms, name, each) for ms, each in zip(ingest, log, strict=True)]
    return sorted(found, key=lambda each: each[0])
