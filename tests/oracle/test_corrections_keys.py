"""``late_policy: reevaluate`` with figures of several keys: a changed cross-key figure is joined again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.rules.base import Defaults
from crossline.state.retraction import kernel
from drawing import one_of_these

from .composed import composed_detect
from .corrected import current_states, in_event_order, standing_in_order, step_by_step
from .fastpath import FastPath, hit_values, plans_of, stream_spec
from .living import Feed, Life
from .naive import naive_detect
from .strategies import LISTS, START_MS, STREAM, Body, Record, formula_body
from .test_corrections import BUSY as BELOW
from .test_corrections import (
    PIECES,
    READERS,
    WITHIN,
    bounded,
    corrections,
    disordered,
    judging,
    reevaluated,
    sorted_alert_values,
)
from .test_corrections_stream_join import POLICIES, both, judged
from .test_detect_equals_naive import DEEP, Shape, many, run, shapes
from .test_publications import SPREAD, Op, live
from .test_stream_join import OTHER, _there

few = settings(many, max_examples=1500 if DEEP else 12)
_OWN: Body = {"count": True, "group_by": "account", "window": "3s"}
_DEVICE: Body = {"group_by": "device", "window": "4s"}
_ONES = [{"field": "kind", "operator": "==", "value": "POS"}]
_FORMULA: Body = {"rule_type": "formula", "source_topic": STREAM}
# Rules that meet many records, so that many are corrected.
BUSY: list[Body] = [
    {
        **_FORMULA,
        "figures": {"f0": _OWN, "f1": {"sum": "amount", **_DEVICE}},
        "when": "f0 / f1 > 0.5",
        "value": "f0 - f1",
    },
    {
        **_FORMULA,
        "figures": {"f0": {**_OWN, "window": "5s"}, "f1": {"count": True, **_DEVICE, "conditions": _ONES}},
        "when": "f0 > f1",
        "emit": "every",
    },
    {
        **_FORMULA,
        "figures": {"f0": {"last": "amount", **_DEVICE, "bounds": "[)"}, "f1": {"sum": "amount", "window": "2s"}},
        "when": "amount > f0 and f1 == f1",
        "value": "f0 - f1",
        "cooldown": "1s",
    },
    {
        **_FORMULA,
        "figures": {
            "f0": {"since": True, "group_by": "account", "window": "5s"},
            "f1": {"count": True, "group_by": ["account", "device"], "window": "3s", "delay": "1s"},
        },
        "when": "f0 > f1",
        "emit": "every",
        "conditions": _ONES,
    },
]


@st.composite
def drawn(draw: st.DrawFn) -> Body:
    """A formula of which each figure may have a key of its own."""
    body = draw(formula_body())
    for name in body["figures"]:
        keys = draw(st.sampled_from(["device", "account", ["account", "device"], "kind", None]))
        body["figures"][name] |= {"group_by": keys}
    return body


def _of(bodies: Sequence[Body]) -> list[Body]:
    return [reevaluated(body, number) for number, body in enumerate(bodies)]


RULES = bounded(
    st.lists(st.one_of(st.sampled_from(BUSY), st.sampled_from(BUSY), drawn()), min_size=1, max_size=3).map(_of)
)


def checked_run(rules: Sequence[Body], made: Sequence[Record], shape: Shape, piece: int) -> FastPath:
    """Runs the rules over the records; each alert and each correction must be emitted once."""
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    with mock.patch.object(kernel, "PIECE", piece):
        run(path, shape, made, ["log"] * len(made))
    ids = [alert["alert_id"] for alert in path.alerts]
    assert len(set(ids)) == len(ids)
    return path


@few
@given(st.data(), RULES, disordered(25))
def test_what_stands_is_what_the_log_in_order_says(data: st.DataObject, rules: list[Body], made: list[Record]) -> None:
    path = checked_run(rules, made, data.draw(shapes(len(made))), data.draw(PIECES))
    assert sorted_alert_values(current_states(path.alerts)) == standing_in_order(judging(rules), made)


@few
@given(st.data(), RULES, disordered(12))
def test_every_correction_is_reported_once_whatever_the_cuts(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    path = checked_run(rules, made, data.draw(shapes(len(made))), data.draw(PIECES))
    assert sorted(map(repr, corrections(path.alerts))) == sorted(map(repr, step_by_step(judging(rules), made)))


@few
@given(st.data(), st.sampled_from(BUSY), st.lists(st.sampled_from(READERS), min_size=1, max_size=2), disordered(20))
def test_corrections_travel_to_those_who_read_such_a_rule(
    data: st.DataObject, below: Body, readers: list[Body], made: list[Record]
) -> None:
    rules = _of([below])
    for number, reader in enumerate(readers):
        named = {"rule_id": f"q{number}", "version": 1, "source_topic": f"rule:{'q0' if number else 'r0'}"}
        rules.append({**reader, **WITHIN, **named, "late_policy": data.draw(st.sampled_from(POLICIES))})
    rules = data.draw(bounded(st.just(rules)))
    path = checked_run(rules, made, data.draw(shapes(len(made))), data.draw(PIECES))
    assert sorted_alert_values(current_states(path.alerts)) == composed_in_order(rules, made)


@few
@given(st.data(), st.sampled_from(BELOW), st.lists(st.sampled_from(BUSY), min_size=1, max_size=2), disordered(20))
def test_such_a_rule_reads_hits_that_are_taken_back(
    data: st.DataObject, below: Body, readers: list[Body], made: list[Record]
) -> None:
    """Hits go and come under both keys, and figures of one key change for hits of the other."""
    rules = [reevaluated(below, 0)]
    for number, reader in enumerate(_of(readers)):
        named = {"rule_id": f"q{number}", "source_topic": f"rule:{'q0' if number else 'r0'}"}
        rules.append({**reader, **named, "late_policy": data.draw(st.sampled_from(POLICIES))})
    rules = data.draw(bounded(st.just(rules)))
    path = checked_run(rules, made, data.draw(shapes(len(made))), data.draw(PIECES))
    assert sorted_alert_values(current_states(path.alerts)) == composed_in_order(rules, made)


def composed_in_order(rules: Sequence[Body], made: Sequence[Record]) -> list[Any]:
    """What the log in order says, by the naive twin of composition."""
    ordered = in_event_order(made)
    plainly = [{**body, "late_policy": "evaluate"} for body in rules]
    expected = composed_detect(plainly, ordered, lists=LISTS)
    return sorted(hit_values(hit, ordered[hit.position]) for hit in expected.hits)


@st.composite
def of_both(draw: st.DrawFn) -> Body:
    """A rule of several keys, some figures of which are of the other stream."""
    body = draw(st.one_of(st.sampled_from(BUSY), drawn()))
    figures = {}
    for name, figure in body["figures"].items():
        figures[name] = dict(figure)
        if draw(st.booleans()):
            keys = {"group_by": _there(figure["group_by"])} if figure.get("group_by") else {}
            figures[name] |= {"source_topic": OTHER, **keys}
    return {**body, "figures": figures}


TWO_STREAMS = bounded(st.lists(of_both(), min_size=1, max_size=2).map(_of))


@few
@given(st.data(), TWO_STREAMS, both(14))
def test_figures_of_another_key_and_another_stream(
    data: st.DataObject, rules: list[Body], given_: tuple[list[Record], list[str]]
) -> None:
    made, logs = given_
    path = judged(rules, made, logs, data.draw(shapes(len(made))))
    assert sorted_alert_values(current_states(path.alerts)) == standing_in_order(judging(rules), made)


@few
@given(st.data(), TWO_STREAMS, both(7))
def test_every_correction_over_two_streams_is_reported_once(
    data: st.DataObject, rules: list[Body], given_: tuple[list[Record], list[str]]
) -> None:
    made, logs = given_
    path = judged(rules, made, logs, data.draw(shapes(len(made))))
    assert sorted(map(repr, corrections(path.alerts))) == sorted(map(repr, step_by_step(judging(rules), made)))


@st.composite
def keyed_lives(draw: st.DrawFn, rules: Sequence[Body], count: int) -> list[Op]:
    """Each rule is published before some batch; batches are killed, and processes and shards lost between them."""
    ends = sorted(draw(st.sets(st.integers(1, count - 1), max_size=6)))
    ops: list[list[Op]] = []
    for start, end in zip([0, *ends], [*ends, count], strict=True):
        happens = draw(one_of_these("batch", "batch", "killed", "uncommitted"))
        after = draw(st.sampled_from([[], [], [("restart", 0)], [("lose", 0)]]))
        ops.append([(happens, (end - start, draw(st.integers(1, 2)), None)), *after])
    for rule in rules:
        ops[draw(st.integers(0, len(ops) - 1))].insert(0, ("publish", rule))
    return [op for each in ops for op in each]


@settings(few, max_examples=600 if DEEP else 6)
@given(st.data(), RULES, disordered(25), st.sampled_from([0, 500, 5000]))
def test_rules_that_are_published_in_pipelines_that_are_stopped(
    data: st.DataObject, rules: list[Body], made: list[Record], lag_ms: int
) -> None:
    """They begin with the past of all their keys; each record is judged by the versions in force when it came."""
    ops = data.draw(keyed_lives(rules, len(made)))
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)
    with tempfile.TemporaryDirectory() as folder:
        shards = data.draw(st.integers(1, 3))
        life = Life(Path(folder), stream_spec(ingest_column=True), standing, shards, lag_ms, Feed())
        live(life, ops, made)
    ordered = in_event_order(made)
    logged = [{**body, "late_policy": "evaluate"} for body in life.feed.logged]
    expected = naive_detect(logged, ordered, defaults=SPREAD, lists=LISTS)
    wanted = sorted(hit_values(hit, ordered[hit.position]) for hit in expected.hits)
    assert sorted_alert_values(current_states(life.alerts)) == wanted


def test_a_record_of_one_key_corrects_an_alert_of_another() -> None:
    """By hand: of device 1 there are 5 and 5 by a1, and 7 of a2 that come late; of a2 itself nothing else is known.

    t1 is hit by 10 of its device, then by 17; with -9 of a3 they are 8, which is too little, and with 6 more of it 14.
    """
    came = [("a1", 5, 0, 0), ("a1", 5, 3, 3), ("a2", 7, 1, 4), ("a3", -9, 2, 5), ("a3", 6, 2, 6)]
    made: list[Record] = [
        {
            "_id": f"t{number}",
            "_event_ms": START_MS + 1000 * at_s,
            "_ingest_ms": START_MS + 1000 * ingest_s,
            "account": account,
            "device": 1,
            "amount": amount,
        }
        for number, (account, amount, at_s, ingest_s) in enumerate(came)
    ]
    rule = {
        **reevaluated(_FORMULA, 0),
        "figures": {"mine": _OWN | {"window": "9s"}, "all": {"sum": "amount", **_DEVICE, "window": "9s"}},
        "when": "mine >= 2 and all >= 10",
        "value": "all",
        "emit": "every",
    }
    path = FastPath.of(plans_of([rule], stream_spec(ingest_column=True), {}), 3)
    for number in range(len(made)):
        path.batch([("log", [(number, made[number])])])
        for shard in range(3):
            path.restore(shard)
    lines = [(a["record_id"], a.get("outcome"), a.get("caused_by"), a["value"]) for a in path.alerts]
    assert lines == [
        ("t1", None, None, 10),
        ("t1", "amended", "t2", 17),
        ("t1", "retracted", "t3", None),
        ("t1", "reinstated", "t4", 14),
    ]
