"""The naive twin of rules on another clock than event time: each is judged as if that time were the event time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .conditions import Lists
from .naive import NaiveResult, naive_detect
from .rule_versions import read_snapshot
from .strategies import Body, Record

CLOCK = "booked"  # its name, and that of its field


def clocked_detect(
    rules: Sequence[Body],
    records: Sequence[Record],
    *,
    defaults: Mapping[str, str] | None = None,
    lists: Lists | None = None,
) -> NaiveResult:
    """As ``naive_detect``; a rule with a ``timestamp_field`` goes by that time of the record."""
    plain = naive_detect([_else_paused(body, None) for body in rules], records, defaults=defaults, lists=lists)
    others = [_else_paused(body, CLOCK) for body in rules]
    there = naive_detect(others, on_clock(records), defaults=defaults, lists=lists)
    late = {place for place in plain.late if place not in plain.duplicates}
    snapshot = [rule for rule in read_snapshot(others, defaults or {}) if rule.event_time]
    for place, record in enumerate(records):
        bounds = [r.allowed_lateness_ms for r in snapshot if r.from_ms <= record["_ingest_ms"] < r.until_ms]
        lateness_ms = record["_ingest_ms"] - record[CLOCK]
        if lateness_ms > min(bounds, default=math.inf) and place not in plain.duplicates:
            late.add(place)
    return replace(plain, hits=[*plain.hits, *there.hits], late=sorted(late))


def _else_paused(body: Body, clock: str | None) -> Body:
    """A rule of another clock only ends what came before it."""
    if body.get("timestamp_field") != clock:
        return {**body, "status": "paused"} if body.get("status") != "draft" else body
    return body if clock is None else {**body, "time_mode": "event_time"}


def on_clock(records: Sequence[Record]) -> list[Record]:
    return [{**record, "_event_ms": record[CLOCK]} for record in records]
