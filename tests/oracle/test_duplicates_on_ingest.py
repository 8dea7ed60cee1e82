"""Copies of records on the ingest clock, worked by hand: however old a record is, its copy is no second one."""

from __future__ import annotations

import pytest

from .fastpath import FastPath, plans_of, stream_spec
from .naive import naive_detect
from .strategies import LISTS, START_MS, STREAM, Body, Record
from .test_detect_equals_naive import Shape, run

_CASH: Body = {"field": "kind", "operator": "==", "value": "CSH"}
_PLAIN: Body = {"rule_type": "threshold", "rule_id": "plain", "conditions": [_CASH]}
_LISTED: Body = {"rule_type": "list", "rule_id": "listed", "field": "kind", "list": "cash"}
_COUNTED: Body = {
    "rule_type": "velocity",
    "rule_id": "counted",
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 1,
    "window": "10s",
    "emit": "every",
}


def on_ingest(body: Body) -> Body:
    return {**body, "version": 1, "source_topic": STREAM, "time_mode": "processing_time"}


def came(times: list[tuple[str, int, int]]) -> list[Record]:
    """Of ids, seconds of event time and seconds of ingest time."""
    return [
        {"_id": name, "_event_ms": START_MS + 1000 * at, "_ingest_ms": START_MS + 1000 * then, **_FIELDS}
        for name, at, then in times
    ]


_FIELDS: Record = {"kind": LISTS["cash"][0], "account": "a1", "device": 1}
OLD = [("p1", 0, 200), ("p1", 0, 201), ("p2", 202, 202), ("p2", 202, 203)]


def fates(rules: list[Body], times: list[tuple[str, int, int]]) -> tuple[list[tuple[str, str]], list[int], list[int]]:
    """Rules and records of the alerts, and the places of duplicates and late records; the twin says the same."""
    made = came(times)
    for batches in ([(0, len(made))], [(at, at + 1) for at in range(len(made))]):
        path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), 2)
        run(path, Shape(2, batches, [(at, at % 2) for at in range(len(batches))]), made, ["log"] * len(made))
        alerts, duplicates, late = path.outcome()
        twin = naive_detect(rules, made, lists=LISTS)
        found = sorted((each[0], each[2]) for each in alerts), duplicates, late
        assert found == (sorted((hit.rule_id, hit.record_id) for hit in twin.hits), twin.duplicates, twin.late)
    return found


@pytest.mark.parametrize("body", [_PLAIN, _LISTED, _COUNTED])
def test_a_copy_of_a_record_that_is_long_past_is_a_duplicate(body: Body) -> None:
    name = body["rule_id"]
    assert fates([on_ingest(body)], OLD) == ([(name, "p1"), (name, "p2")], [1, 3], [])


def test_beside_a_rule_on_event_time_the_record_is_late_for_that_one_and_its_copy_a_duplicate() -> None:
    """By hand: p1 is 200 s late, beyond two minutes; the rule on the ingest clock takes it, once."""
    beside = {**_COUNTED, "rule_id": "beside", "version": 1, "source_topic": STREAM, "time_mode": "event_time"}
    alerts = [("beside", "p2"), ("plain", "p1"), ("plain", "p2")]
    assert fates([on_ingest(_PLAIN), beside], OLD) == (alerts, [1, 3], [0])


def test_ids_are_known_for_two_minutes_in_powers_of_two_seconds() -> None:
    """By hand: 2 min make 128 s. p1 comes again after 128 s, which is known, and 129 s after that first time anew."""
    times = [("p1", 0, 0), ("p1", 0, 128), ("p1", 0, 129)]
    assert fates([on_ingest(_PLAIN)], times) == ([("plain", "p1"), ("plain", "p1")], [1], [])


def test_a_rule_of_hits_on_the_ingest_clock_meets_each_once() -> None:
    reader = {**on_ingest(_PLAIN), "rule_id": "reader", "source_topic": "rule:plain"}
    made = came(OLD)
    path = FastPath.of(plans_of([on_ingest(_PLAIN), reader], stream_spec(ingest_column=True), {}), 2)
    run(path, Shape(2, [(0, 1), (1, 4)], []), made, ["log"] * len(made))
    found = sorted((each["rule_id"], each["record_id"]) for each in path.alerts)
    assert found == [("plain", "p1"), ("plain", "p2"), ("reader", "p1"), ("reader", "p2")]
