"""The breaker counts alerts by interval of the ingest clock, however they are cut into batches."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.times import FOREVER_MS, format_instant
from crossline.evaluate.alerts.breaker import (
    Bound,
    BreakerTrip,
    Counts,
    GuardedRule,
    Name,
    counted,
    guarded_rules,
    instants_ms,
)
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet, RuleVersion

MINUTE = 60_000
BOUND = Bound(2, MINUTE)


def alert(ingest_ms: int, rule_id: str = "a", version: int = 1, **more: Any) -> dict[str, Any]:
    body = {"rule_id": rule_id, "rule_version": version, "kind": "alert", "ingest_time": format_instant(ingest_ms)}
    return {**body, **more}


def tripped(alerts: list[dict[str, Any]], cuts: list[int], watched: dict[Name, GuardedRule]) -> list[BreakerTrip]:
    """What trips, with ``alerts`` cut into batches; a rule that tripped is watched no more, as a pipeline does."""
    counts: Counts = {}
    found: list[BreakerTrip] = []
    edges = [0, *sorted(min(each, len(alerts)) for each in cuts), len(alerts)]
    for begin, end in pairwise(edges):
        counts, trips = counted(counts, alerts[begin:end], watched)
        found += trips
        watched = {name: each for name, each in watched.items() if name not in {(t.rule_id, t.version) for t in trips}}
    return found


def test_more_than_the_bound_in_one_interval_trips() -> None:
    watched = {("a", 1): GuardedRule(BOUND, 0)}
    near = [alert(MINUTE - 1), alert(MINUTE - 2), alert(MINUTE), alert(MINUTE + 1)]
    counts, trips = counted({}, near, watched)
    assert (counts, trips) == ({("a", 1): {0: 2, 1: 2}}, [])
    counts, trips = counted(counts, [alert(2 * MINUTE - 1)], watched)
    assert trips == [BreakerTrip("a", 1, 3, MINUTE, BOUND)]
    assert counts == {}, "what tripped begins at nothing once it is active again"


def test_only_alerts_that_are_reported_count() -> None:
    watched = {("a", 1): GuardedRule(Bound(1, MINUTE), 10)}
    silent = [
        *(alert(20, kind=kind) for kind in ("shadow", "correction", "shadow")),
        *(alert(20, emit_to_sink=False) for _ in range(3)),
        *(alert(9) for _ in range(3)),  # before the status that holds was set
        *(alert(20, version=2) for _ in range(3)),
        *(alert(20, "b") for _ in range(3)),
        alert(20),
    ]
    assert counted({}, silent, watched) == ({("a", 1): {0: 1}}, [])


def test_counts_of_what_is_watched_no_more_go() -> None:
    assert counted({("a", 1): {0: 1}, ("b", 1): {0: 2}}, [], {("b", 1): GuardedRule(BOUND, 0)}) == (
        {("b", 1): {0: 2}},
        [],
    )
    same = {("b", 1): {0: 2}}
    assert counted(same, [], {("b", 1): GuardedRule(BOUND, 0)})[0] is same, "nothing to write down"


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3 * MINUTE, 3 * MINUTE)), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
    st.integers(1, 5),
)
def test_which_rules_trip_depends_on_no_cut(hits: list[tuple[str, int]], cuts: list[int], most: int) -> None:
    bound = Bound(most, MINUTE)
    watched = {(name, 1): GuardedRule(bound, -FOREVER_MS) for name in "ab"}
    found = tripped([alert(ms, name) for name, ms in hits], cuts, watched)
    naive = Counter((name, ms // MINUTE) for name, ms in hits)
    assert {trip.rule_id for trip in found} == {name for (name, _), count in naive.items() if count > most}
    assert all(most < trip.count <= naive[trip.rule_id, trip.begins_ms // MINUTE] for trip in found)


@given(st.lists(st.integers(-62_135_596_800_000, 253_402_300_799_999), max_size=5))
def test_instants_are_read_as_they_are_written(instants: list[int]) -> None:
    assert instants_ms([format_instant(ms) for ms in instants]).tolist() == instants


def version(from_ms: int, until_ms: int = FOREVER_MS, kind: Any = "active", **more: Any) -> RuleVersion:
    body = {"rule_id": "a", "version": 1, "rule_type": "threshold", "source_topic": "s", **more}
    rule, findings = read_rule({**body, "conditions": [{"field": "x", "operator": ">", "value": 1}]})
    assert rule is not None, findings
    return RuleVersion(rule, from_ms, until_ms, kind)


def test_what_is_active_until_further_notice_may_trip() -> None:
    """Of an interval with an end the log knows what came of it: records of the past that come again trip nothing."""
    rules = RuleSet((version(0, 10), version(10, 20, "shadow"), version(20)))
    assert guarded_rules(rules, BOUND) == {("a", 1): GuardedRule(BOUND, 20)}
    assert guarded_rules(rules, None) == {}
    assert guarded_rules(RuleSet((version(0, 10), version(10, kind="shadow"))), BOUND) == {}
    own = {"breaker": {"alerts_max": 7, "per": "1h"}}
    assert guarded_rules(RuleSet((version(0, **own),)), BOUND) == {("a", 1): GuardedRule(Bound(7, 3_600_000), 0)}
