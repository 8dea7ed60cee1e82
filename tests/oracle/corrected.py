"""The naive twin of ``late_policy: reevaluate``: what stands after each record, all of them judged in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .fastpath import hit_values
from .naive import NaiveResult
from .strategies import Record

Judging = Callable[[Sequence[Record]], NaiveResult]
AlertValues = tuple[Any, ...]
ALERT_ID = 3  # its index in the values of a hit
VALUE = 6


def in_event_order(records: Sequence[Record], *, event_time: bool = True) -> list[Record]:
    """The log in order of event time; records of equal time in ingest order."""
    return sorted(records, key=lambda record: record["_event_ms" if event_time else "_ingest_ms"])


def arrived(records: Sequence[Record]) -> list[Record]:
    """The records as they came, each with how far its log had come, which their order by event time does not say."""
    reached = itertools.accumulate((record["_ingest_ms"] for record in records), max)
    return [{**record, "_reached_ms": ms} for record, ms in zip(records, reached, strict=True)]


def standing_in_order(judging: Judging, records: Sequence[Record]) -> list[AlertValues]:
    """What the log in order says, by the naive twin of ``evaluate``."""
    ordered = in_event_order(records)
    return sorted(hit_values(hit, ordered[hit.position]) for hit in judging(ordered).hits)


def step_by_step(judging: Judging, records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """The whole output, record by record: alerts as emitted, and corrections.

    Of a correction: the alert's id, the outcome, the record that changed it, and the value before and after.
    """
    reported: list[tuple[Any, ...]] = []
    before: dict[str, AlertValues] = {}
    known: set[str] = set()
    for end, record in enumerate(records, 1):
        now = {each[ALERT_ID]: each for each in standing_in_order(judging, records[:end])}
        for alert_id in sorted({*before, *now}):
            was, is_now = before.get(alert_id), now.get(alert_id)
            if was == is_now:
                continue
            if alert_id not in known:
                reported.append(("alert", is_now))
                continue
            outcome = "retracted" if is_now is None else "reinstated" if was is None else "amended"
            values = (None if was is None else was[VALUE], None if is_now is None else is_now[VALUE])
            reported.append((outcome, alert_id, record["_id"], *values))
        known |= set(now)
        before = now
    return reported


def current_states(alerts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The current states of alerts: of each, the last message emitted."""
    standing: dict[str, dict[str, Any]] = {}
    for alert in alerts:
        if alert["corrects"] is None:
            assert alert["alert_id"] not in standing
            standing[alert["alert_id"]] = dict(alert)
        elif alert["outcome"] == "retracted":
            del standing[alert["corrects"]]
        else:
            assert (alert["corrects"] in standing) == (alert["outcome"] == "amended")
            standing[alert["corrects"]] = {**alert, "alert_id": alert["corrects"], "kind": _kind(alert)}
    return list(standing.values())


def _kind(alert: Mapping[str, Any]) -> str:
    return "alert" if alert["kind"] == "correction" else alert["kind"]
