"""``late_policy: reevaluate``: whatever the order in which records come, what stands in the end is one and the same."""

from __future__ import annotations

import math
import tempfile
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.rules.base import Defaults
from crossline.state.retraction import kernel
from drawing import one_of_these

from .composed import _judged as judged_on
from .composed import composed_detect
from .corrected import arrived, current_states, in_event_order, standing_in_order, step_by_step
from .fastpath import FastPath, alert_values, hit_values, plan_of, plans_of, stream_spec
from .living import Feed, Life
from .naive import NAMESPACE, NaiveResult, naive_detect
from .strategies import LISTS, START_MS, STREAM, Body, Record, dormancy_body, formula_body, sequence_body, velocity_body
from .test_detect_equals_naive import DEEP, Shape, many, run, shapes
from .test_publications import SPREAD, Op, live, lives

PIECES = st.sampled_from([1, 5, 20, kernel.PIECE])  # rows that are judged together: a key may be cut anywhere
few = settings(many, max_examples=2000 if DEEP else 15)
_LATENESS = ("watermark_delay", "allowed_lateness", "late_policy", "time_mode")
WITHIN: Body = {"watermark_delay": "1s", "allowed_lateness": "6s", "late_policy": "reevaluate"}
_COUNT: Body = {"rule_type": "velocity", "source_topic": STREAM, "group_by": "account", "aggregation_type": "count"}
_SUM: Body = {**_COUNT, "aggregation_type": "sum", "aggregation_field": "amount"}
_STEP: Body = {"name": "one", "conditions": [{"field": "device", "operator": "==", "value": 1}]}
# Rules that meet many records, so that many are corrected.
BUSY: list[Body] = [
    {**_COUNT, "window": "3s", "aggregation_threshold": 2},
    {**_COUNT, "window": "2s", "aggregation_threshold": 2, "emit": "every", "emit_mode": "window"},
    {**_COUNT, "window": "3s", "aggregation_threshold": 1, "emit": "every", "cooldown": "2s"},
    {**_COUNT, "window": "1s", "aggregation_threshold": 2, "operator": "<=", "cooldown": "3s"},
    {**_SUM, "window": "3s", "aggregation_threshold": 3},
    {**_SUM, "window": "3s", "aggregation_type": "last", "aggregation_threshold": 2, "bounds": "[)"},
    {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {
            "f0": {"count": True, "group_by": "account", "window": "3s"},
            "f1": {"streak": True, "group_by": "account", "window": "5s", "conditions": _STEP["conditions"]},
        },
        "when": "amount > f0 and f1 == f1",
        "value": "f0 - f1",
    },
    {
        "rule_type": "dormancy",
        "source_topic": STREAM,
        "group_by": "account",
        "inactive_for": "2s",
        "window": "1s",
        "known_for": "5s",
        "at_least": 1,
    },
    {
        "rule_type": "sequence",
        "source_topic": STREAM,
        "group_by": "account",
        "within": "3s",
        "steps": [_STEP, {"name": "two", "conditions": [{"field": "device", "operator": "==", "value": 2}]}],
    },
    {
        "rule_type": "sequence",
        "source_topic": STREAM,
        "group_by": "account",
        "within": "4s",
        "steps": [{**_STEP, "times": 2}, {"name": "any"}],
        "strict": True,
        "cooldown": "1s",
    },
]


def reevaluated(body: Body, number: int) -> Body:
    """A rule of any type, of one version, that judges again."""
    kept = {name: value for name, value in body.items() if name not in _LATENESS}
    return {**kept, **WITHIN, "rule_id": f"r{number}", "version": 1}


DRAWN = st.one_of(velocity_body(), formula_body(), dormancy_body(), sequence_body())
BOUNDS = st.sampled_from(["1s", "2s", "3s", "6s", "6s"])  # how late a record may be for a rule


@st.composite
def bounded(draw: st.DrawFn, rules: st.SearchStrategy[list[Body]]) -> list[Body]:
    """Rules of which each, be it one that reads another's hits, takes records of a lateness of its own."""
    return [{**body, "allowed_lateness": draw(BOUNDS)} for body in draw(rules)]


RULES = bounded(
    st.lists(st.one_of(st.sampled_from(BUSY), st.sampled_from(BUSY), DRAWN), min_size=1, max_size=3).map(
        lambda bodies: [reevaluated(body, number) for number, body in enumerate(bodies)]
    )
)


@st.composite
def disordered(draw: st.DrawFn, max_size: int) -> list[Record]:
    """Records of few keys that come out of order, nearly all of them within the bound, some of them twice."""
    made: list[Record] = []
    event_ms = START_MS
    for number in range(draw(st.integers(2, max_size))):
        event_ms += draw(one_of_these(0, 500, 1000, 1000))
        late_ms = draw(one_of_these(0, 0, 0, 500, 1000, 2000, 3000, 6000, 6001))
        fields = {
            "account": draw(one_of_these("a1", "a1", "a1", "a2", None)),
            "device": draw(one_of_these(1, 2)),
            "amount": draw(one_of_these(0, 1, 2, 3, None)),
            "price": draw(one_of_these(0.1, 0.3, 1e16, -1.0)),
            "kind": draw(one_of_these("CSH", "POS")),
        }
        times = {"_event_ms": event_ms, "_ingest_ms": event_ms + late_ms}
        made.append({**fields, "_id": f"t{number}", **times})
        if draw(st.integers(0, 9)) == 0:
            made.append({**draw(st.sampled_from(made)), "_ingest_ms": event_ms + 1000})
    return sorted(made, key=lambda record: record["_ingest_ms"])


def judging(rules: Sequence[Body]) -> Any:
    """The naive twin of the same rules as if all records came in order."""
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]

    def judged(made: Sequence[Record]) -> NaiveResult:
        return naive_detect(plainly, made, lists=LISTS)

    return judged


def sorted_alert_values(alerts: Sequence[Mapping[str, Any]]) -> list[Any]:
    return sorted(alert_values(alert) for alert in alerts)


def corrections(alerts: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The values of each correction, as the twin has them."""
    found: list[tuple[Any, ...]] = []
    for alert in alerts:
        if alert["corrects"] is None:
            found.append(("alert", alert_values(alert)))
        else:
            values = (_figure(alert, "value_before", "reinstated"), _figure(alert, "value", "retracted"))
            found.append((alert["outcome"], alert["corrects"], alert["caused_by"], *values))
    return found


def _figure(alert: Mapping[str, Any], name: str, without: str) -> Any:
    return None if alert["outcome"] == without else alert_values({**alert, "value": alert[name]})[6]


@few
@given(st.data(), RULES, disordered(25))
def test_what_stands_is_what_the_log_in_order_says(data: st.DataObject, rules: list[Body], made: list[Record]) -> None:
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plan_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    with mock.patch.object(kernel, "PIECE", data.draw(PIECES)):
        run(path, shape, made, ["log"] * len(made))
    assert sorted_alert_values(current_states(path.alerts)) == standing_in_order(judging(rules), made)
    ids = [alert["alert_id"] for alert in path.alerts]
    assert len(set(ids)) == len(ids)


@few
@given(st.data(), RULES, disordered(12))
def test_every_correction_is_reported_once_whatever_the_cuts(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plan_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    with mock.patch.object(kernel, "PIECE", data.draw(PIECES)):
        run(path, shape, made, ["log"] * len(made))
    assert sorted(map(repr, corrections(path.alerts))) == sorted(map(repr, step_by_step(judging(rules), made)))


READERS: list[Body] = [
    {**_COUNT, "group_by": "device", "window": "4s", "aggregation_threshold": 2},
    {**_COUNT, "group_by": "device", "window": "5s", "aggregation_threshold": 1, "emit": "every", "cooldown": "2s"},
    {**_SUM, "group_by": "account", "window": "5s", "aggregation_field": "hit.value", "aggregation_threshold": 3},
    {"rule_type": "threshold", "conditions": [{"field": "hit.value", "operator": ">=", "value": 2}]},
    {"rule_type": "list", "field": "kind", "list": "cash"},
    {**_COUNT, "group_by": "hit.value", "window": "3s", "aggregation_threshold": 1, "emit": "every"},
    {"rule_type": "sequence", "group_by": "account", "within": "4s", "steps": [_STEP, {"name": "any", "times": 2}]},
    {
        "rule_type": "formula",
        "figures": {
            "f0": {"count": True, "group_by": "account", "window": "3s"},
            "f1": {"since": True, "group_by": "account", "window": "5s"},
        },
        "when": "f0 > f1",
        "emit": "every",
    },
]


@st.composite
def composed(draw: st.DrawFn) -> list[Body]:
    """Rules that judge again, and rules of any policy that read their hits, one or two levels deep."""
    bodies = [reevaluated(draw(st.sampled_from(BUSY)), 0)]
    for name, below in (("q0", "r0"), ("q1", "r0"), ("z0", "q0"))[: draw(st.integers(1, 3))]:
        times = {**WITHIN, "late_policy": draw(one_of_these("evaluate", "reevaluate"))}
        name_of = {"rule_id": name, "version": 1, "source_topic": f"rule:{below}"}
        bodies.append({**draw(st.sampled_from(READERS)), **times, **name_of})
    return bodies


@few
@given(st.data(), bounded(composed()), disordered(20))
def test_corrections_travel_through_rules_that_read_hits(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    with mock.patch.object(kernel, "PIECE", data.draw(PIECES)):
        run(path, shape, made, ["log"] * len(made))
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    ordered = in_event_order(made)
    expected = composed_detect(plainly, ordered, lists=LISTS)
    wanted = sorted(hit_values(hit, ordered[hit.position]) for hit in expected.hits)
    assert sorted_alert_values(current_states(path.alerts)) == wanted
    ids = [alert["alert_id"] for alert in path.alerts]
    assert len(set(ids)) == len(ids)


IN_PANES: Body = {**_COUNT, "group_by": "device", "window": "20s", "resolution": "10s", "aggregation_threshold": 2}


@few
@given(st.data(), st.sampled_from(BUSY), disordered(20), st.sampled_from([{}, {"emit": "every"}]))
def test_a_reader_that_judges_nothing_again_takes_hits_as_they_are_reported_first_whatever_the_cuts(
    data: st.DataObject, body: Body, made: list[Record], emission: Body
) -> None:
    times = {**WITHIN, "late_policy": "evaluate"}
    reader = {**IN_PANES, **times, **emission, "rule_id": "q0", "version": 1, "source_topic": "rule:r0"}
    rules = data.draw(bounded(st.just([reevaluated(body, 0), reader])))
    alone = Shape(1, [(place, place + 1) for place in range(len(made))], [])
    lines = []
    for shape in (alone, data.draw(shapes(len(made)))):
        path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
        run(path, shape, made, ["log"] * len(made))
        lines.append(sorted_alert_values([alert for alert in path.alerts if alert["rule_id"] == "q0"]))
        assert not [alert for alert in path.alerts if alert["rule_id"] == "q0" and alert["corrects"]]
    assert lines[0] == lines[1]


ON_INGEST: Body = {**_COUNT, "rule_id": "q0", "version": 1, "source_topic": "rule:r0", "time_mode": "processing_time"}


@few
@given(st.data(), st.sampled_from(BUSY), disordered(15), st.sampled_from([{}, {"emit": "every", "cooldown": "1s"}]))
def test_a_reader_on_the_ingest_clock_takes_hits_in_the_order_in_which_their_records_came(
    data: st.DataObject, body: Body, made: list[Record], emission: Body
) -> None:
    reader = {**ON_INGEST, "window": "4s", "aggregation_threshold": 2, **emission}
    shape = data.draw(shapes(len(made)))
    rules = [{**reevaluated(body, 0), "allowed_lateness": data.draw(BOUNDS)}, reader]
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    ordered = in_event_order(made)
    place = {id(record): number for number, record in enumerate(made)}
    below = naive_detect([{**rules[0], "late_policy": "evaluate"}], ordered, lists=LISTS).hits
    read = [replace(hit, position=place[id(ordered[hit.position])]) for hit in below]
    reached = [{**record, "_reached_ms": record["_ingest_ms"]} for record in made]  # ingest times do not go back here
    expected = judged_on([reader], rules, read, reached, True, None, LISTS, math.inf)
    found = [alert for alert in current_states(path.alerts) if alert["rule_id"] == "q0"]
    assert sorted_alert_values(found) == sorted(hit_values(hit, made[hit.position]) for hit in expected)


def test_what_was_retracted_and_stands_again_is_reinstated_for_all_that_read_it() -> None:
    """By hand: 60 and 60 cross the line; 50 between them takes the crossing, -70 gives it back, 20 more amends it."""
    amounts = [(60, 0, 0), (60, 5, 5), (50, 3, 6), (-70, 1, 7), (20, 4, 8)]
    made: list[Record] = [
        {
            "_id": f"t{number}",
            "_event_ms": START_MS + 1000 * at,
            "_ingest_ms": START_MS + 1000 * came,
            "account": "a1",
            "amount": amount,
        }
        for number, (amount, at, came) in enumerate(amounts)
    ]
    spent = {**_SUM, **WITHIN, "rule_id": "r0", "version": 1, "window": "10s", "aggregation_threshold": 100}
    large = {"rule_type": "threshold", "rule_id": "q0", "version": 1, "source_topic": "rule:r0"}
    large["conditions"] = [{"field": "hit.value", "operator": ">=", "value": 110}]
    path = FastPath.of(plans_of([spent, large], stream_spec(ingest_column=True), {}), 1)
    for number in range(len(made)):
        path.batch([("log", [(number, made[number])])])
        path.restore(0)
    lines = [(each["rule_id"], each["record_id"], each.get("outcome"), each.get("caused_by")) for each in path.alerts]
    assert sorted(lines, key=str) == sorted(
        [
            *(("r0", "t1", None, None), ("q0", "t1", None, None)),
            *(("r0", "t2", None, None), ("r0", "t1", "retracted", "t2")),
            *(("q0", "t2", None, None), ("q0", "t1", "retracted", "t2")),
            *(("r0", "t1", "reinstated", "t3"), ("r0", "t2", "retracted", "t3"), ("q0", "t2", "retracted", "t3")),
            *(("r0", "t1", "amended", "t4"), ("q0", "t1", "reinstated", "t4")),
        ],
        key=str,
    )
    again = next(each for each in path.alerts if each.get("outcome") == "amended")
    assert (again["value_before"], again["value"], again["kind"]) == (100, 120, "correction")
    assert again["alert_id"] == correction_id(again["corrects"], "t4")


def correction_id(corrects: str, record_id: str) -> str:
    """Written out, not imported: ids are a promise to other programs."""
    return str(uuid.uuid5(NAMESPACE, f"correction\x1f{corrects}\x1f{record_id}"))


def test_a_long_log_out_of_order_of_which_most_is_thrown_out() -> None:
    """Stores are compacted several times over, and shards lose their state in between."""
    shards = 2
    rules = [reevaluated(body, number) for number, body in enumerate(BUSY)]
    reader = {**READERS[0], **WITHIN, "rule_id": "q0", "version": 1, "source_topic": "rule:r1"}
    made: list[Record] = [
        {
            "_id": f"t{number}",
            "_ingest_ms": START_MS + number * 300,
            "_event_ms": START_MS + number * 300 - (number * number % 11) * 500,
            "account": f"a{number * number % 5}",
            "device": 1 + number % 2,
            "amount": number % 4,
        }
        for number in range(240)
    ]
    batches = [(low, low + 20) for low in range(0, 240, 20)]
    losses = [(number, number % shards) for number in (3, 4, 7, 9, 10)]
    path = FastPath.of(plans_of([*rules, reader], stream_spec(ingest_column=True), {}), shards)
    run(path, Shape(shards, batches, losses), made, ["log"] * len(made))
    plainly = [{**body, "late_policy": "evaluate"} for body in (*rules, reader)]
    ordered = in_event_order(made)
    expected = composed_detect(plainly, ordered, lists=LISTS).hits
    reported = sorted_alert_values(current_states(path.alerts))
    assert reported == sorted(hit_values(hit, ordered[hit.position]) for hit in expected)
    outcomes = Counter(alert.get("outcome") for alert in path.alerts)
    assert min(outcomes[each] for each in (None, "retracted", "amended")) > 25
    held = sum(store.records for shard in path.shards for store in shard.state.stores.values())
    assert held < 240  # of as many in each of several stores


def again(op: Op) -> Op:
    """What happens in a life, with rules that judge again."""
    happens, what = op
    if happens in {"publish", "ahead"}:
        kept = {name: value for name, value in what.items() if name not in _LATENESS}
        bounds = {name: what[name] for name in ("watermark_delay", "allowed_lateness") if name in what}
        return happens, kept if what["rule_type"] == "threshold" else {**kept, **WITHIN, **bounds}
    if happens in {"batch", "killed", "uncommitted"} and what[2] is not None:
        return happens, (*what[:2], again(("publish", what[2]))[1])
    return op


@settings(many, max_examples=1000 if DEEP else 5)
@given(st.data(), disordered(25), st.sampled_from([0, 500, 5000]))
def test_rules_that_come_and_go_in_pipelines_that_are_stopped(
    data: st.DataObject, made: list[Record], lag_ms: int
) -> None:
    """Each record is judged by the versions in force when it came, also when it is judged again."""
    ops = [again(op) for op in data.draw(lives(len(made)))]
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)
    with tempfile.TemporaryDirectory() as folder:
        shards = data.draw(st.integers(1, 3))
        life = Life(Path(folder), stream_spec(ingest_column=True), standing, shards, lag_ms, Feed())
        live(life, ops, made)
    alerts = current_states(life.alerts)
    ordered = in_event_order(arrived(made))
    logged = [{**body, "late_policy": "evaluate"} for body in life.feed.logged]
    passed_ms = made[-1]["_ingest_ms"]
    expected = naive_detect(logged, ordered, defaults=SPREAD, lists=LISTS, passed_ms=passed_ms)
    assert sorted_alert_values(alerts) == sorted(hit_values(hit, ordered[hit.position]) for hit in expected.hits)
