"""``late_policy: reevaluate`` over several streams: figures of another one, steps of it, context, and their readers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import fastpath
from .composed import _judged as judged_on
from .corrected import current_states, in_event_order, standing_in_order, step_by_step
from .fastpath import FastPath, hit_values, plans_of, stream_spec
from .naive import Hit, naive_detect
from .strategies import LISTS, START_MS, STREAM, Body, Record, formula_body, sequence_body
from .test_contexts import ALLOWED_MS, RULE
from .test_contexts import naive as in_context
from .test_corrections import WITHIN, bounded, corrections, disordered, judging, reevaluated, sorted_alert_values
from .test_detect_equals_naive import DEEP, Shape, at_instants, many, run, shapes
from .test_stream_join import OTHER, _named_otherwise, _there, other_spec

few = settings(many, max_examples=600 if DEEP else 8)
_COUNT: Body = {"count": True, "group_by": "account", "window": "3s"}
_OF_OTHER: Body = {"group_by": {"account": "owner"}, "source_topic": OTHER}
_ONES = [{"field": "device", "operator": "==", "value": 1}]
# Rules that meet many records of both, so that many are corrected.
BUSY: list[Body] = [
    {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {"f0": {"last": "amount", "window": "3s", **_OF_OTHER}, "f1": {**_COUNT, "window": "5s"}},
        "when": "amount > f0 and f1 == f1",
        "value": "f0 - f1",
        "emit": "every",
    },
    {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {"f0": {"count": True, "window": "2s", **_OF_OTHER}, "f1": {**_COUNT, "window": "4s"}},
        "when": "f0 > f1",
    },
    {
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {"f0": {"sum": "amount", "window": "4s", "delay": "1s", **_OF_OTHER}},
        "when": "f0 >= 2",
        "cooldown": "1s",
    },
    {
        "rule_type": "sequence",
        "source_topic": STREAM,
        "group_by": "account",
        "within": "4s",
        "steps": [
            {"name": "there", "source_topic": OTHER, "group_by": ["owner"]},
            {"name": "here", "conditions": _ONES},
        ],
    },
    {
        "rule_type": "sequence",
        "source_topic": STREAM,
        "group_by": "account",
        "within": "5s",
        "steps": [
            {"name": "here"},
            {"name": "there", "source_topic": OTHER, "group_by": ["owner"], "conditions": _ONES, "times": 2},
        ],
        "cooldown": "1s",
    },
]


@st.composite
def drawn(draw: st.DrawFn) -> Body:
    """A formula, or a sequence, of which some figures or steps are of the other stream."""
    if draw(st.booleans()):
        body = draw(formula_body())
        for name, figure in body["figures"].items():
            if draw(st.integers(0, 3)):
                keys = {"group_by": _there(figure["group_by"])} if figure.get("group_by") else {}
                body["figures"][name] = {**figure, "source_topic": OTHER, **keys}
        return body
    body = draw(sequence_body().filter(lambda each: "strict" not in each and not _named_otherwise(each)))
    keys = [body["group_by"]] if isinstance(body.get("group_by"), str) else body.get("group_by") or []
    for step in body["steps"]:
        if draw(st.booleans()):
            named = {"group_by": ["owner" if name == "account" else name for name in keys]} if keys else {}
            step |= {"source_topic": OTHER, **named}
    return body


RULES = bounded(
    st.lists(st.one_of(st.sampled_from(BUSY), st.sampled_from(BUSY), drawn()), min_size=1, max_size=2).map(
        lambda bodies: [reevaluated(body, number) for number, body in enumerate(bodies)]
    )
)


@st.composite
def both(draw: st.DrawFn, most: int) -> tuple[list[Record], list[str]]:
    """Records of both streams, out of order within the bound, by ingest time; of one of these the other's first."""
    own, other = draw(disordered(most)), draw(disordered(most))
    renamed = [
        {"owner" if n == "account" else n: v for n, v in r.items()} | {"_stream": OTHER, "_id": f"o{r['_id']}"}
        for r in other
    ]
    made = sorted([*renamed, *own], key=lambda record: record["_ingest_ms"])
    return made, [record.get("_stream", "log") for record in made]


def judged(rules: Sequence[Body], made: Sequence[Record], logs: Sequence[str], shape: Shape) -> FastPath:
    """What comes of them."""
    others = {OTHER: other_spec(ingest_column=True)}
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}, others=others), shape.shards)
    path.streams[OTHER] = OTHER
    run(path, at_instants(shape, made), made, logs)
    ids = [alert["alert_id"] for alert in path.alerts]
    assert len(set(ids)) == len(ids)
    return path


@few
@given(st.data(), RULES, both(14))
def test_what_stands_is_what_the_logs_in_order_say(
    data: st.DataObject, rules: list[Body], given_: tuple[list[Record], list[str]]
) -> None:
    made, logs = given_
    path = judged(rules, made, logs, data.draw(shapes(len(made))))
    assert sorted_alert_values(current_states(path.alerts)) == standing_in_order(judging(rules), made)


@few
@given(st.data(), RULES, both(7))
def test_every_correction_is_reported_once_whatever_the_cuts(
    data: st.DataObject, rules: list[Body], given_: tuple[list[Record], list[str]]
) -> None:
    made, logs = given_
    path = judged(rules, made, logs, data.draw(shapes(len(made))))
    assert sorted(map(repr, corrections(path.alerts))) == sorted(map(repr, step_by_step(judging(rules), made)))


READERS: list[Body] = [
    {"rule_type": "velocity", "aggregation_type": "count", "aggregation_threshold": 2, "window": "4s"},
    {"rule_type": "threshold", "conditions": [{"field": "device", "operator": "==", "value": 1}]},
    {
        "rule_type": "velocity",
        "aggregation_type": "sum",
        "aggregation_field": "hit.value",
        "aggregation_threshold": 2,
        "window": "5s",
        "emit": "every",
    },
]


@few
@given(st.data(), st.sampled_from(BUSY[:3]), st.lists(st.sampled_from(READERS), min_size=1, max_size=2), both(12))
def test_corrections_by_either_stream_travel_to_readers(
    data: st.DataObject, below: Body, readers: list[Body], given_: tuple[list[Record], list[str]]
) -> None:
    made, logs = given_
    rules = [reevaluated(below, 0)]
    for number, reader in enumerate(readers):
        named = {"rule_id": f"q{number}", "version": 1, "source_topic": "rule:r0"}
        key = {"group_by": "device"} if reader["rule_type"] == "velocity" else {}
        rules.append({**reader, **WITHIN, **named, **key, "late_policy": data.draw(st.sampled_from(POLICIES))})
    rules = data.draw(bounded(st.just(rules)))
    path = judged(rules, made, logs, data.draw(shapes(len(made))))
    ordered = in_event_order(made)
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    hits = naive_detect(plainly[:1], ordered, lists=LISTS).hits
    hits += read_in_order(plainly[1:], plainly, hits, ordered)
    wanted = sorted(hit_values(hit, ordered[hit.position]) for hit in hits)
    assert sorted_alert_values(current_states(path.alerts)) == wanted


POLICIES = ["evaluate", "reevaluate"]


def read_in_order(
    readers: Sequence[Body], rules: Sequence[Body], hits: Sequence[Hit], made: Sequence[Record]
) -> list[Hit]:
    """What ``readers`` make of ``hits`` on records that are in the order in which they are judged."""
    reached = itertools.accumulate((record["_ingest_ms"] for record in made), max)
    placed = [{**record, "_reached_ms": ms} for record, ms in zip(made, reached, strict=True)]
    return judged_on([*readers], rules, hits, placed, True, None, LISTS, math.inf)


def context_values(path: FastPath) -> list[tuple[str, str, Any]]:
    found = [
        (alert["record_id"], alert["evidence"]["context"]["record_ids"][-1], alert["value"])
        for alert in current_states(path.alerts)
        if alert["rule_id"] == "off"
    ]
    return sorted(found, key=str)


@few
@given(st.data(), both(14))
def test_the_last_context_is_that_of_the_logs_in_order(
    data: st.DataObject, given_: tuple[list[Record], list[str]]
) -> None:
    """A record waits for a context of its own time, as it would if all came in order."""
    made, logs = given_
    path = judged([{**RULE, "late_policy": "reevaluate"}], made, logs, data.draw(shapes(len(made))))
    timely = [record for record in made if record["_ingest_ms"] - record["_event_ms"] <= ALLOWED_MS]
    assert context_values(path) == in_context(in_event_order(timely))


def test_records_that_never_get_context_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: t1 gets the context that comes late, t2 of another key none; shards lose their state in between."""
    counted: Counter[str] = Counter()

    def counting(*given: Any) -> Any:
        output = fastpath_judge(*given)
        counted.update(output.without_context)
        return output

    fastpath_judge = fastpath.judge
    monkeypatch.setattr(fastpath, "judge", counting)
    at = [(STREAM, "a1", 5, 5), (STREAM, "a2", 5, 5), (OTHER, "a1", 4, 6), (STREAM, "a1", 6, 7), (STREAM, "a9", 60, 60)]
    made: list[Record] = []
    for number, (stream, account, event_s, ingest_s) in enumerate(at):
        key, there = ("account", {}) if stream == STREAM else ("owner", {"_stream": OTHER})
        times = {"_event_ms": START_MS + 1000 * event_s, "_ingest_ms": START_MS + 1000 * ingest_s}
        made.append({"_id": f"t{number + 1}", key: account, "amount": 5, **times, **there})
    logs = [record.get("_stream", "log") for record in made]
    shape = Shape(2, [(0, 2), (2, 3), (3, 4), (4, 5)], [(0, 0), (0, 1), (2, 0), (2, 1), (3, 0)])
    path = judged([{**RULE, "late_policy": "reevaluate"}], made, logs, shape)
    assert [each[:2] for each in context_values(path)] == [("t1", "t3"), ("t4", "t3")]
    assert counted == {"off@1": 1}
