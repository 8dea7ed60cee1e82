"""Rules without retraction that read hits which other rules retract: a hit counts from its first emission.

Their alerts must not depend on batch boundaries, though a late record may cause a hit of an earlier record.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from .composed import composed_detect
from .fastpath import FastPath, plans_of, stream_spec
from .strategies import LISTS, START_MS, STREAM, Body, Record
from .test_corrections import BUSY, WITHIN, disordered, reevaluated, sorted_alert_values
from .test_corrections_keys import BUSY as OF_KEYS
from .test_detect_equals_naive import DEEP, Shape, at_instants, check, many, run, shapes

few = settings(many, max_examples=2000 if DEEP else 12)
HITS = "rule:r0"
_COUNT: Body = {"rule_type": "velocity", "aggregation_type": "count"}
_FORMULA: Body = {"rule_type": "formula", "source_topic": HITS}
_BY_DEVICE: Body = {"count": True, "group_by": "device", "window": "4s"}
_BY_ACCOUNT: Body = {"count": True, "group_by": "account", "window": "20s", "resolution": "10s"}
_ONE: list[Body] = [{"field": "device", "operator": "==", "value": 1}]
_CASH: list[Body] = [{"field": "kind", "operator": "==", "value": "CSH"}]
# What is read: the hits alone, first under one key, then under several.
ALONE: list[Body] = [
    {**_COUNT, "source_topic": HITS, "group_by": "device", "window": "20s", "resolution": "10s"}
    | {"aggregation_threshold": 2},
    {**_FORMULA, "figures": {"a": _BY_DEVICE, "b": _BY_ACCOUNT}, "when": "a >= 2 and b >= 2"},
    {**_FORMULA, "figures": {"b": _BY_ACCOUNT, "a": _BY_DEVICE}, "when": "a + b > 3", "value": "a - b"},
    {
        **_FORMULA,
        "figures": {"a": {**_BY_DEVICE, "window": "20s", "resolution": "10s"}, "b": {"count": True, "window": "3s"}},
        "when": "a > b",
    },
    {**_FORMULA, "figures": {"a": {"count": True, "group_by": "account", "window": "3s"}, "s": {"risk": True}}}
    | {"when": "a * 10 > s", "value": "s"},
    {
        **_FORMULA,
        "figures": {"a": _BY_DEVICE, "s": {"risk": ["r0"], "group_by": "account", "half_life": "3s"}},
        "when": "a > 1 or s > 40",
        "value": "s + a",
    },
]
# The hits beside records of the stream.
BESIDE: list[Body] = [
    {
        **_FORMULA,
        "figures": {"a": _BY_DEVICE, "b": {**_BY_ACCOUNT, "source_topic": STREAM}},
        "when": "b >= 2 * a",
        "value": "a + 10 * b",
    },
    {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {"a": {**_BY_ACCOUNT, "source_topic": HITS}, "n": {"count": True, "window": "3s"}},
        "when": "a >= 1 and n >= 1",
        "value": "a + 10 * n",
    },
    {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {"a": {**_BY_DEVICE, "source_topic": HITS}, "n": {**_BY_ACCOUNT, "group_by": "kind"}},
        "when": "a >= 1 and n >= 1",
        "value": "a + 10 * n",
    },
    {"rule_type": "absence", "source_topic": HITS, "group_by": "account", "within": "2s", "after": _CASH}
    | {"expect": {"source_topic": STREAM, "conditions": _ONE}},
    {"rule_type": "absence", "source_topic": STREAM, "group_by": "account", "within": "2s", "after": _CASH}
    | {"expect": {"source_topic": HITS, "conditions": _ONE}},
]


# Reads the hits of the reader, and says at each what it has seen.
ABOVE: Body = {
    **_FORMULA,
    **WITHIN,
    "late_policy": "evaluate",
    "rule_id": "z0",
    "version": 1,
    "source_topic": "rule:q0",
}
ABOVE |= {"figures": {"a": _BY_DEVICE, "b": _BY_ACCOUNT}, "when": "a >= 1", "value": "a + 10 * b", "emit": "every"}


def first_emissions(below: Body, reader: Body, made: list[Record], shape: Shape) -> list[Any]:
    """What the reader says of the hits of a rule that judges again, and one that reads its hits; none is corrected."""
    rules = [{**reevaluated(below, 0), "score": 20}, {**reader, **WITHIN, "late_policy": "evaluate"}, ABOVE]
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    mine = [alert for alert in path.alerts if alert["rule_id"] != "r0"]
    assert not [alert for alert in mine if alert["corrects"]]
    return sorted_alert_values(mine)


@few
@given(st.data(), st.sampled_from(BUSY), st.sampled_from(OF_KEYS), disordered(20))
def test_figures_of_several_keys_over_hits_that_are_never_taken_back(
    data: st.DataObject, below: Body, reader: Body, made: list[Record]
) -> None:
    """The hits of one chunk come from all shards that judged them, and each gets its cross-key figures."""
    rules = [{**reevaluated(below, 0)}, {**reader, **WITHIN, "rule_id": "q0", "version": 1, "source_topic": HITS}]
    rules = [{**body, "late_policy": "evaluate"} for body in rules]
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    check(path, rules, composed_detect(rules, made, lists=LISTS), made)


EMISSION = st.sampled_from([{}, {"emit": "every"}, {"emit": "every", "cooldown": "1s"}])


@few
@given(st.data(), st.sampled_from(BUSY), st.sampled_from(ALONE), disordered(20), EMISSION)
def test_hits_alone_count_from_when_they_were_reported_wherever_batches_are_cut(
    data: st.DataObject, below: Body, reader: Body, made: list[Record], emission: Body
) -> None:
    reader = {**reader, **emission, "rule_id": "q0", "version": 1}
    alone = Shape(1, [(place, place + 1) for place in range(len(made))], [])
    assert first_emissions(below, reader, made, data.draw(shapes(len(made)))) == first_emissions(
        below, reader, made, alone
    )


@few
@given(st.data(), st.sampled_from(BUSY), st.sampled_from(BESIDE), disordered(20), EMISSION)
def test_hits_beside_records_count_from_when_they_were_reported_wherever_batches_are_cut(
    data: st.DataObject, below: Body, reader: Body, made: list[Record], emission: Body
) -> None:
    """Several sources are judged up to the same instants of the ingest clock."""
    reader = {**reader, "rule_id": "q0", "version": 1, **({} if reader["rule_type"] == "absence" else emission)}
    alone = at_instants(Shape(1, [(place, place + 1) for place in range(len(made))], []), made)
    shape = at_instants(data.draw(shapes(len(made))), made)
    assert first_emissions(below, reader, made, shape) == first_emissions(below, reader, made, alone)


def test_what_comes_of_a_hit_that_is_reported_late_is_reported_late_too() -> None:
    """By hand: t3 comes late and makes t0 a hit, after t2 was one; who reads hits of hits has seen t2 without it."""
    times = [(0, 0, "a1"), (2000, 2000, "a2"), (3000, 3000, "a2"), (-500, 4000, "a1"), (4500, 4500, "a2")]
    made: list[Record] = [
        {
            "_id": f"t{number}",
            "_event_ms": START_MS + event_ms,
            "_ingest_ms": START_MS + ingest_ms,
            "account": account,
            "device": 1,
            "amount": 0,
            "price": 0.1,
            "kind": "CSH",
        }
        for number, (event_ms, ingest_ms, account) in enumerate(times)
    ]
    reader = {**ALONE[0], "aggregation_threshold": 1, "emit": "every", "rule_id": "q0", "version": 1}
    for batches in ([(0, 5)], [(place, place + 1) for place in range(5)], [(0, 3), (3, 5)]):
        reported = first_emissions({**BUSY[0], "emit": "every"}, reader, made, Shape(2, batches, []))
        assert [(rule, record, value) for rule, _, record, _, _, _, value, *_ in reported] == [
            ("q0", "t0", "1"),
            ("q0", "t2", "1"),
            ("q0", "t4", "3"),
            ("z0", "t0", "11"),
            ("z0", "t2", "11"),
            ("z0", "t4", "22"),
        ]
