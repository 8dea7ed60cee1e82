"""A key judged once: alerts, decisions' inputs and states as of all variants one by one, and as the naive twin has."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate.bounds import Bounds
from crossline.evaluate.output import ShardOutput
from crossline.evaluate.shard import judge
from crossline.state.retraction import far_verdicts, kernel, replays
from crossline.state.retraction.constant_verdicts import ConstantVerdicts
from crossline.state.retraction.far_verdicts import FarVerdicts
from drawing import one_of_these

from . import fastpath
from .corrected import current_states, standing_in_order, step_by_step
from .fastpath import FastPath, plan_of, stream_spec
from .strategies import START_MS, STREAM, Body, Record
from .test_corrections import WITHIN, corrections, disordered, judging, sorted_alert_values
from .test_detect_equals_naive import DEEP, Shape, many, run, shapes

some = settings(many, max_examples=2000 if DEEP else 12)
_KINDS = (("count", None), ("distinct_count", "device"), *((kind, "amount") for kind in ("sum", "avg", "min", "max")))
_PRICED = tuple((kind, "price") for kind in ("sum", "avg", "max"))
_COUNTED: Body = {"count": True, "group_by": "account"}
_FORMULAS = (
    "many >= 3",
    "many < 1 or amount > 100",
    "many * 2 - 1 > usual",
    "not (many <= 2 and usual < 1)",
    "usual / many > 50",
    "amount > usual + 90",
    "-many < 0",
    "1 <= many < 40",
    "kind == 'CSH' and many > 90",
    "missing(amount) and many != 0",
)


@st.composite
def bodies(draw: st.DrawFn) -> list[Body]:
    """Rules of figures that only grow or shrink, with thresholds that are often far from what is there."""
    found: list[Body] = []
    for number in range(draw(st.integers(1, 3))):
        times = {**WITHIN, "rule_id": f"r{number}", "version": 1, "source_topic": STREAM}
        window = f"{draw(one_of_these(1, 3, 8))}s"
        emission = draw(st.sampled_from([{}, {}, {"emit": "every"}, {"cooldown": "2s"}]))
        if draw(st.integers(0, 2)) == 0:
            figures = {"many": {**_COUNTED, "window": window}, "usual": {"avg": "amount", "group_by": "account"}}
            figures["usual"]["window"] = "4s"
            when = draw(st.sampled_from(_FORMULAS))
            found.append({**times, **emission, "rule_type": "formula", "figures": figures, "when": when})
            continue
        kind, field = draw(st.sampled_from((*_KINDS, *_PRICED)))
        body = {**times, **emission, "rule_type": "velocity", "group_by": "account", "window": window}
        body |= {"aggregation_type": kind, **({} if field is None else {"aggregation_field": field})}
        body |= {"aggregation_threshold": draw(one_of_these(-3, 0, 1, 2, 5, 60))}
        body |= {"operator": draw(one_of_these(">=", ">", "<", "<="))}
        body |= {"bounds": draw(one_of_these("(]", "[]", "[)"))}
        found.append(body)
    return found


@st.composite
def storms(draw: st.DrawFn, max_size: int) -> list[Record]:
    """Many records of few keys, of which some are late, and some come twice."""
    made: list[Record] = []
    for number in range(draw(st.integers(10, max_size))):
        at_ms = START_MS + 200 * number
        late_ms = draw(one_of_these(0, 0, 0, 0, 200, 400, 900, 2500, 6001))
        fields = {
            "account": draw(one_of_these("a1", "a1", "a1", "a2")),
            "device": draw(one_of_these(1, 2)),
            "amount": draw(one_of_these(0, 1, 2, 3, None)),
            "price": draw(one_of_these(0.1, 0.3, 1e16, -1.0)),
            "kind": draw(one_of_these("CSH", "POS")),
        }
        made.append({**fields, "_id": f"t{number}", "_event_ms": at_ms - late_ms, "_ingest_ms": at_ms})
        if draw(st.integers(0, 19)) == 0:
            made.append({**draw(st.sampled_from(made)), "_ingest_ms": at_ms})
    return made


def outcome(
    rules: Sequence[Body], made: Sequence[Record], shape: Shape, least: int, *, decides: bool = True
) -> tuple[Any, ...]:
    """Alerts, changes of what decisions rest on, and segments, where ``least`` late records are judged once."""
    changes: list[str] = []

    def judged(*given: Any) -> ShardOutput:
        output = judge(*given)
        changes.extend(repr(each) for columns in output.suppression_changes for each in columns)
        return output

    path = FastPath.of(plan_of(rules, stream_spec(ingest_column=True), {}), shape.shards, Bounds(decides=decides))
    with mock.patch.object(replays, "LEAST", least), mock.patch.object(fastpath, "judge", judged):
        run(path, shape, made, ["log"] * len(made))
    return path.alerts, sorted(changes), [shard.segments for shard in path.shards]


@some
@given(st.data(), bodies(), storms(45))
def test_a_key_judged_once_is_as_one_of_all_variants(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    shape, decides = data.draw(shapes(len(made))), data.draw(st.booleans())
    once, variants = (outcome(rules, made, shape, least, decides=decides) for least in (1, sys.maxsize))
    assert once == variants


@some
@given(st.data(), bodies(), storms(45))
def test_a_key_decided_by_totals_is_as_one_of_all_variants(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    """However few its rows are here; where totals do not decide, its rows do."""
    shape, decides = data.draw(shapes(len(made))), data.draw(st.booleans())
    passed = mock.patch.object(far_verdicts, "PASSED_MAX", data.draw(one_of_these(0, 2)))
    with mock.patch.object(kernel, "FAR_FROM", 1), passed:
        by_totals = outcome(rules, made, shape, sys.maxsize, decides=decides)
    assert by_totals == outcome(rules, made, shape, sys.maxsize, decides=decides)


@st.composite
def near(draw: st.DrawFn) -> list[Body]:
    """Rules of integers whose thresholds a few records reach: what late records change of them runs one by one."""
    found: list[Body] = []
    for number in range(draw(st.integers(1, 2))):
        kind, field = draw(st.sampled_from(_KINDS))
        body: Body = {**WITHIN, "rule_id": f"r{number}", "version": 1, "source_topic": STREAM}
        body |= {"rule_type": "velocity", "group_by": "account", "window": draw(one_of_these("1s", "3s", "5s"))}
        body |= {"aggregation_type": kind, **({} if field is None else {"aggregation_field": field})}
        body |= {"aggregation_threshold": draw(one_of_these(1, 2, 2, 3, 4))}
        body |= {"operator": draw(one_of_these(">=", ">=", ">", "<", "<=", "==", "!="))}
        body |= draw(st.sampled_from([{}, {}, {"cooldown": "2s"}, {"bounds": "[]"}, {"bounds": "[)"}]))
        found.append(body)
    return found


@some
@given(st.data(), near(), disordered(25))
def test_what_stands_near_thresholds_is_what_the_log_in_order_says(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    alerts = outcome(rules, made, data.draw(shapes(len(made))), 1, decides=data.draw(st.booleans()))[0]
    assert sorted_alert_values(current_states(alerts)) == standing_in_order(judging(rules), made)


@some
@given(st.data(), near(), disordered(12))
def test_every_correction_near_thresholds_is_reported_once(
    data: st.DataObject, rules: list[Body], made: list[Record]
) -> None:
    alerts = outcome(rules, made, data.draw(shapes(len(made))), 1, decides=data.draw(st.booleans()))[0]
    assert sorted(map(repr, corrections(alerts))) == sorted(map(repr, step_by_step(judging(rules), made)))


def _runs(found: list[int | None]) -> Any:
    """Notes in ``found`` how many lines of each key run record by record; None: its variants are judged."""
    known = ConstantVerdicts.judged

    def judged(*given: Any, **named: Any) -> Any:
        made_once = known(*given, **named)
        found.append(None if made_once is None else len(made_once.runs))
        return made_once

    return mock.patch.object(ConstantVerdicts, "judged", judged)


@pytest.mark.parametrize("emission", [{}, {"cooldown": "2s"}])
@pytest.mark.parametrize(
    ("kind", "field", "threshold"),
    [
        ("count", None, 36),
        ("sum", "amount", 120),
        ("avg", "amount", 3),
        ("min", "amount", 1),
        ("max", "amount", 6),
        ("distinct_count", "device", 5),
    ],
)
def test_a_line_near_its_threshold_runs_record_by_record(
    kind: str, field: str | None, threshold: int, emission: Body
) -> None:
    rule: Body = {**WITHIN, **emission, "rule_id": "r0", "version": 1, "source_topic": STREAM, "rule_type": "velocity"}
    rule |= {"group_by": "account", "window": "4s" if kind in ("count", "sum", "avg") else "700ms"}
    rule |= {"aggregation_type": kind, "aggregation_threshold": threshold}
    rule |= {} if field is None else {"aggregation_field": field}
    drawn, made = random.Random(7), list[Record]()
    for number in range(300):
        at_ms = START_MS + 100 * number
        fields = {"account": "a1", "device": drawn.randrange(7), "amount": drawn.randrange(7), "price": 0.1}
        late_ms = drawn.choice([0, 0, 0, 0, drawn.randrange(5_900)])
        made.append({**fields, "kind": "POS", "_id": f"t{number}", "_event_ms": at_ms - late_ms, "_ingest_ms": at_ms})
    shape, found = Shape(1, [(0, 100), (100, 200), (200, 300)], []), list[int | None]()
    with _runs(found):
        once = outcome([rule], made, shape, 4)
    assert found == [1, 1, 1]
    assert once == outcome([rule], made, shape, sys.maxsize)
    assert "retracted" in {alert["outcome"] for alert in once[0] if alert["corrects"] is not None}


@pytest.mark.parametrize(
    ("kind", "field", "far", "near"),
    [
        ("count", None, (-1, 2, 130), 80),
        ("sum", "amount", (-1, 20, 900), 240),
        ("avg", "amount", (-1, 9), 3),
        ("min", "amount", (-1, 3, 7), None),
        ("max", "amount", (-1, 3, 7), None),
        ("distinct_count", "device", (0, 60), 5),
    ],
)
def test_a_line_far_from_its_threshold_is_decided_by_totals(
    kind: str, field: str | None, far: tuple[int, ...], near: int | None
) -> None:
    """Each batch has late records, and the windows of all of its records reach far behind the first of them."""
    rule: Body = {**WITHIN, "rule_id": "r0", "version": 1, "source_topic": STREAM, "rule_type": "velocity"}
    rule |= {"group_by": "account", "window": "8s", "aggregation_type": kind}
    rule |= {} if field is None else {"aggregation_field": field}
    drawn, made = random.Random(7), list[Record]()
    for number in range(300):
        at_ms = START_MS + 100 * number
        fields = {"account": "a1", "device": drawn.randrange(7), "amount": drawn.randrange(7), "price": 0.1}
        late_ms = drawn.choice([0, 0, 0, 0, drawn.randrange(900)])
        made.append({**fields, "kind": "POS", "_id": f"t{number}", "_event_ms": at_ms - late_ms, "_ingest_ms": at_ms})
    shape, known = Shape(1, [(0, 200), (200, 220), (220, 240), (240, 300)], []), FarVerdicts.piece
    for threshold in (*far, *([] if near is None else [near])):
        found, of_threshold = list[bool](), {**rule, "aggregation_threshold": threshold}

        def piece(*given: Any, into: list[bool] = found) -> Any:
            made_of_it = known(*given)
            into.append(made_of_it is not None)
            return made_of_it

        tried = mock.patch.object(far_verdicts, "PASSED_MAX", 0)  # at each batch
        with tried, mock.patch.object(kernel, "FAR_FROM", 50), mock.patch.object(FarVerdicts, "piece", piece):
            by_totals = outcome([of_threshold], made, shape, sys.maxsize)
        assert by_totals == outcome([of_threshold], made, shape, sys.maxsize)
        assert found[1:3] == [threshold in far] * 2, threshold


def test_a_storm_is_judged_once() -> None:
    """A count far above its threshold, and a formula far below: no variant is replayed."""
    count: Body = {**WITHIN, "rule_id": "r0", "version": 1, "source_topic": STREAM, "rule_type": "velocity"}
    count |= {"group_by": "account", "aggregation_type": "count", "window": "8s", "aggregation_threshold": 5}
    figures = {"many": {**_COUNTED, "window": "8s"}, "usual": {"avg": "amount", "group_by": "account", "window": "4s"}}
    formula: Body = {**WITHIN, "rule_id": "r1", "version": 1, "source_topic": STREAM, "rule_type": "formula"}
    formula |= {"figures": figures, "when": "many > 3 and amount > 5 * usual"}
    made: list[Record] = [
        {"_id": f"t{number}", "account": "a1", "device": 1, "amount": 2 + number % 3, "price": 0.1, "kind": "POS"}
        | {"_ingest_ms": START_MS + 100 * number, "_event_ms": START_MS + 100 * number - 700 * (number % 10 == 9)}
        for number in range(300)
    ]
    shape, found = Shape(1, [(0, 100), (100, 200), (200, 300)], []), list[int | None]()
    with _runs(found):
        once = outcome([count, formula], made, shape, 4)
    assert found == [1, 0, 0]  # in the first batch the count crosses its threshold
    assert once == outcome([count, formula], made, shape, sys.maxsize)
    assert [alert["record_id"] for alert in once[0] if alert["corrects"] is None] == [
        "t4",
        "t3",
    ]  # t9 came as the third of all
