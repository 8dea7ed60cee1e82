"""A suggested line is the best there is: by the twin, which judges every line there could be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crossline.analysis.detection_quality import FraudLabels
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.trial import as_if_active
from crossline.backtest.workbench.sample import batches
from crossline.backtest.workbench.threshold_search import Suggestion, ThresholdTarget, suggest
from crossline.evaluate.bounds import Bounds
from crossline.rules.rule_reader import load_rules_text
from drawing import one_of_these

from .fastpath import stream_spec
from .naive import NaiveResult, naive_detect
from .strategies import START_MS, STREAM, Body, Record, wire_record
from .test_detect_equals_naive import DEEP

SPEC = stream_spec(ingest_column=True)
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # each example is a run: they are small as they are
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@st.composite
def made_records(draw: st.DrawFn) -> list[Record]:
    """Records of two keys, some at the same time, some far apart, a few out of order."""
    made: list[Record] = []
    now_ms = START_MS
    for number in range(draw(st.integers(1, 15))):
        now_ms += draw(one_of_these(0, 500, 1000, 2500, 6000))
        made.append(
            {
                "_id": f"t{number}",
                "_event_ms": now_ms - draw(one_of_these(0, 0, 0, 700)),
                "_ingest_ms": now_ms,
                "account": draw(one_of_these("a1", "a1", "a2")),
                "amount": draw(one_of_these(1, 2, 3, 5, 8, None)),
            }
        )
    return made


@st.composite
def lined_rules(draw: st.DrawFn) -> Body:
    """Rules with a line of any kind that is looked for."""
    common: Body = {"rule_id": "r", "version": 1, "source_topic": STREAM}
    operator = draw(one_of_these(">", ">=", "<", "<="))
    emission = {
        "emit": draw(one_of_these("on_crossing", "every")),
        "cooldown": draw(one_of_these("0s", "3s")),
    }
    kind = draw(one_of_these("velocity", "threshold", "formula"))
    if kind == "threshold":
        conditions = [
            {"field": "account", "operator": "==", "value": "a1"},
            {"field": "amount", "operator": operator, "value": 2},
        ]
        return {**common, "rule_type": kind, "conditions": conditions}
    if kind == "velocity":
        aggregate = draw(one_of_these("count", "sum", "max", "avg"))
        body = {**common, **emission, "rule_type": kind, "group_by": "account", "window": "5s", "operator": operator}
        return {**body, "aggregation_type": aggregate, "aggregation_field": "amount", "aggregation_threshold": 2}
    figures = {
        "f0": {"count": True, "group_by": "account", "window": "5s"},
        "f1": {"sum": "amount", "group_by": "account", "window": "5s"},
    }
    return {**common, **emission, "rule_type": kind, "figures": figures, "when": f"f0 >= 2 and f1 {operator} 6"}


def at_line(body: Body, line: float) -> Body:
    if body["rule_type"] == "threshold":
        return {**body, "conditions": [body["conditions"][0], {**body["conditions"][1], "value": line}]}
    return {**body, "aggregation_threshold": line}


def by_twin(body: Body, made: list[Record], line: float) -> NaiveResult:
    return naive_detect([at_line(body, line)], made)


def suggestion(body: Body, made: list[Record], wanted: ThresholdTarget) -> Suggestion:
    (item,) = load_rules_text(orjson.dumps([body]).decode(), "rules.yaml", {STREAM: SPEC}, [])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(b"".join(orjson.dumps(wire_record(record)) + b"\n" for record in made))
        judged = BacktestSpec(
            as_if_active([item.rule]), RecordedInput({STREAM: SPEC}, {STREAM: [str(path)]}), bounds=Bounds(0)
        )
        return suggest(judged, item.rule, list(batches(judged.history, Path(folder))), 1.0, wanted)


def best_of(body: Body, made: list[Record], rank: Callable[[NaiveResult], Any]) -> Any:
    """Over lines on, and on both sides of, every value that the twin's figure has."""
    if body["rule_type"] == "threshold":
        values = {1, 2, 3, 5, 8}
    else:
        every = {**body, "operator": ">=", "aggregation_threshold": -1e9, "emit": "every", "cooldown": "0s"}
        values = {hit.value for hit in naive_detect([every], made).hits if hit.value is not None}
    lines = {value + step for value in values for step in (-1e-3, 0, 1e-3)}
    return min(rank(by_twin(body, made, line)) for line in lines)


@settings(max_examples=300 if DEEP else 10, deadline=None, suppress_health_check=SLOW, phases=QUICK)
@given(lined_rules().filter(lambda body: body["rule_type"] != "formula"), made_records(), st.integers(0, 12))
def test_no_line_comes_nearer_to_so_many_alerts(body: Body, made: list[Record], many: int) -> None:
    if not naive_detect(
        [{**at_line(body, -1e9), "operator": ">="}]
        if body["rule_type"] == "velocity"
        else [{**at_line(body, 0), "conditions": [body["conditions"][0], {"field": "amount", "operator": "exists"}]}],
        made,
    ).hits:
        return
    found = suggestion(body, made, ThresholdTarget(float(many), None))
    assert len(found.judged) == found.lines
    for each in found.judged:
        assert each.alerts == len(by_twin(body, made, each.line).hits)
    assert abs(found.best.alerts - many) == best_of(body, made, lambda result: abs(len(result.hits) - many))
    assert found.present.alerts == len(naive_detect([body], made).hits)


@settings(max_examples=200 if DEEP else 8, deadline=None, suppress_health_check=SLOW, phases=QUICK)
@given(lined_rules().filter(lambda body: body["rule_type"] == "velocity"), made_records(), st.sets(st.integers(0, 14)))
def test_no_line_has_a_better_f1(body: Body, made: list[Record], numbers: set[int]) -> None:
    frauds = {f"t{number}" for number in numbers if number < len(made)}
    body = {**body, "operator": ">="}
    if not frauds or not naive_detect([{**body, "aggregation_threshold": -1e9}], made).hits:
        return

    def f1(result: NaiveResult) -> float:
        hits = [{hit.record_id, *hit.evidence} & frauds for hit in result.hits]
        true, caught = sum(map(bool, hits)), len(set().union(*hits))
        if not true:
            return 0.0
        precision, recall = true / len(hits), caught / len(frauds)
        return 2 * precision * recall / (precision + recall)

    marks = FraudLabels({each: frozenset({each}) for each in frauds}, frozenset(frauds), len(made))
    found = suggestion(body, made, ThresholdTarget(None, marks))
    assert found.best.weighed is not None
    assert abs(found.best.weighed.f1 + best_of(body, made, lambda result: -f1(result))) < 1e-9


def test_the_line_within_a_formula_is_that_of_the_first_plain_number() -> None:
    """``f0 >= 2 and f1 > 6``: the count is what is drawn; the rest of the formula stays."""
    made = [
        {"_id": f"t{n}", "_event_ms": START_MS + 100 * n, "_ingest_ms": START_MS + 100 * n, "account": "a", "amount": 3}
        for n in range(5)
    ]
    figures = {
        "f0": {"count": True, "group_by": "account", "window": "5s"},
        "f1": {"sum": "amount", "group_by": "account", "window": "5s"},
    }
    body: Body = {"rule_id": "r", "version": 1, "source_topic": STREAM, "rule_type": "formula", "figures": figures}
    body |= {"when": "f0 >= 2 and f1 > 6", "emit": "every"}
    found = suggestion(body, made, ThresholdTarget(2.0, None))
    # From the third record on the sum is beyond 6: lines up to 3 give 3 alerts, 4 gives 2, 5 gives 1, 6 none.
    assert [(each.line, each.alerts) for each in found.judged] == [(6, 0), (5, 1), (4, 2), (3, 3), (2, 3), (1, 3)]
    assert (found.best.line, found.same_to, found.drawn.named, found.lines) == (4, 3, "f0", 6)
