"""Which rules flood: alerts counted by rule version and interval of the ingest clock.

What is counted depends on the records that were hit alone, not on how they were cut into batches or which partition
came first. When a rule is found to flood does: that is noted as an event, and the event is what holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.rules.breaker import Bound
from crossline.rules.ruleset import RuleSet

INTERVALS_MAX = 64  # that are remembered of a rule version: partitions lag, but not by so many

Name = tuple[str, int]  # rule id and version
Counts = Mapping[Name, Mapping[int, int]]  # alerts by the number of the interval


@dataclass(frozen=True, slots=True)
class GuardedRule:
    """A rule version that may raise ``bound``, and from which instant on its alerts count."""

    bound: Bound
    from_ms: int


@dataclass(frozen=True, slots=True)
class BreakerTrip:
    """Version ``version`` of a rule had ``count`` alerts in the interval that begins at ``begins_ms``."""

    rule_id: str
    version: int
    count: int
    begins_ms: int
    bound: Bound


def guarded_rules(rules: RuleSet, default: Bound | None) -> dict[Name, GuardedRule]:
    """The versions that may trip: those that judge as active until something else is published.

    Of a version with an end the log knows what became of it. So records of the past that are judged again, from a new
    checkpoint, trip nothing that did not trip then.
    """
    found: dict[Name, GuardedRule] = {}
    for each in rules.versions:
        bound = each.rule.breaker.bound if each.rule.breaker is not None else default
        if bound is not None and each.kind == "active" and each.endless:
            found[each.rule.rule_id, each.rule.version] = GuardedRule(bound, each.effective_from_ms)
    return found


def counted(
    counts: Counts, alerts: Iterable[Mapping[str, Any]], watched: Mapping[Name, GuardedRule]
) -> tuple[Counts, list[BreakerTrip]]:
    """``counts`` with the ``alerts`` of a batch, and what floods; that is counted no longer.

    Alerts count: no corrections, no shadow alerts, and none of rules that only feed others.
    """
    body: dict[Name, list[str]] = {}
    for alert in alerts:
        name = (alert["rule_id"], alert["rule_version"])
        if name in watched and alert["kind"] == "alert" and alert.get("emit_to_sink", True):
            body.setdefault(name, []).append(alert["ingest_time"])
    if not body and counts.keys() <= watched.keys():
        return counts, []
    after = {name: each for name, each in counts.items() if name in watched}
    trips: list[BreakerTrip] = []
    for name in sorted(body):
        mine = watched[name]
        ingest_ms = instants_ms(body[name])
        numbers, more = np.unique(ingest_ms[ingest_ms >= mine.from_ms] // mine.bound.per_ms, return_counts=True)
        known = dict(after.get(name, {}))
        for number, count in zip(numbers.tolist(), more.tolist(), strict=True):
            known[number] = known.get(number, 0) + count
        over = [number for number in sorted(known) if known[number] > mine.bound.alerts_max]
        if over:
            rule_id, version = name
            trip = BreakerTrip(
                rule_id=rule_id,
                version=version,
                count=known[over[0]],
                begins_ms=over[0] * mine.bound.per_ms,
                bound=mine.bound,
            )
            trips.append(trip)
            after.pop(name, None)
        elif known:
            after[name] = {number: known[number] for number in sorted(known)[-INTERVALS_MAX:]}
    return after, trips


def instants_ms(texts: Sequence[str]) -> I64:
    """Instants as they stand in alerts, in UTC to the millisecond, in epoch milliseconds."""
    found: I64 = np.array([text[:-1] for text in texts], "datetime64[ms]").astype(np.int64)
    return found
