"""The line of each type that draws one: worked by hand over a few payments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossline.analysis.detection_quality import FraudLabels
from crossline.backtest.workbench.interval import ANY_TIME
from crossline.backtest.workbench.sample import batches
from crossline.backtest.workbench.threshold_search import Suggestion, ThresholdTarget, suggest, threshold_steps

from .samples import judged, loaded, payment, write

FORM = {"version": 1, "source_topic": "payments"}
# Card a pays five times within a minute, b three times; the amounts of a are near 11, but for the last.
PAYMENTS = [
    payment(1, 0, "a", 10),
    payment(2, 1, "a", 12),
    payment(3, 2, "b", 90),
    payment(4, 3, "a", 10, "odd"),
    payment(5, 4, "b", 20),
    payment(6, 5, "a", 12),
    payment(7, 6, "b", 30),
    payment(8, 7, "a", 2, "odd"),
]


def suggested(folder: Path, many: float, rule: dict[str, Any], *read: dict[str, Any]) -> Suggestion:
    given = judged(write(folder / "in.jsonl", PAYMENTS), rule, *read)
    mine = next(each for each in loaded(rule, *read) if each.rule_id == rule["rule_id"])
    return suggest(given, mine, list(batches(given.history, folder)), 1.0, ThresholdTarget(many, None))


BURST = {**FORM, "rule_id": "burst", "rule_type": "burst", "group_by": "card", "window": "1m"}


@pytest.mark.parametrize(("many", "lines"), [(2, {0, 1, 2}), (1, {3, 4})])
def test_of_a_burst_the_first_number(tmp_path: Path, many: float, lines: set[float]) -> None:
    cases = [{"count": "> 3"}, {"count": "> 100"}]
    found = suggested(tmp_path, many, {**BURST, "any_of": cases})
    assert found.drawn.path == ("any_of", 0, "count")
    assert found.best.alerts == many
    assert found.best.line in lines
    assert found.present.alerts == 1


@pytest.mark.parametrize(("direction", "fires"), [("below", True), ("both", True), ("above", False)])
def test_of_an_anomaly_the_deviations(tmp_path: Path, direction: str, fires: bool) -> None:
    # Before the last there are 10, 12, 10, 12: 11 on average, deviating by 2/sqrt(3); 2 is 7.794 of these below.
    body = {**FORM, "rule_id": "odd", "rule_type": "anomaly", "group_by": "card", "window": "1m", "min_points": 4}
    found = suggested(tmp_path, 1, {**body, "value_field": "amount", "z_score": 7.7, "direction": direction})
    assert found.drawn.path == ("z_score",)
    assert found.present.alerts == fires
    far = 7.794 if fires else -7.794
    assert found.best.alerts == 1
    assert found.best.line < far - 0.001
    assert all(each.alerts == (each.line < far - 0.001) for each in found.judged)


@pytest.mark.parametrize(("many", "line"), [(2, 1), (1, 2)])
def test_of_a_composite_how_many_must_hit(tmp_path: Path, many: float, line: float) -> None:
    large = {**FORM, "rule_id": "large", "rule_type": "threshold"}
    large["conditions"] = [{"field": "amount", "operator": ">", "value": 11}]
    odd = {**FORM, "rule_id": "odd", "rule_type": "threshold"}
    odd["conditions"] = [{"field": "status", "operator": "==", "value": "odd"}]
    both = {"rule_id": "both", "version": 1, "rule_type": "composite", "any_of": ["large", "odd"], "window": "1m"}
    found = suggested(tmp_path, many, {**both, "join_key": "card", "at_least": 2}, large, odd)
    assert (found.best.line, found.best.alerts) == (line, many)
    assert found.present.alerts == 1


@pytest.mark.parametrize(("many", "lines"), [(2, {1, 2, 3}), (1, {4, 5})])
def test_of_a_formula_over_two_keys(tmp_path: Path, many: float, lines: set[float]) -> None:
    figures = {
        "mine": {"count": True, "group_by": "card", "window": "1m"},
        "alike": {"count": True, "group_by": "status", "window": "1m"},
    }
    body = {**FORM, "rule_id": "two", "rule_type": "formula", "figures": figures}
    found = suggested(tmp_path, many, {**body, "when": "mine >= 4 and alike >= 1"})
    assert found.best.line in lines
    assert (found.best.alerts, found.present.alerts) == (many, 1)


def test_what_may_be_corrected_counts_as_it_ends(tmp_path: Path) -> None:
    # Of three in order one is counted; that the second came last corrects nothing, and makes no further alert.
    late = [PAYMENTS[0], PAYMENTS[3], PAYMENTS[1]]
    rule = {**FORM, "rule_id": "many", "rule_type": "velocity", "group_by": "card", "window": "1m"}
    rule |= {"aggregation_type": "count", "aggregation_threshold": 2, "late_policy": "reevaluate"}
    given = judged(write(tmp_path / "in.jsonl", late), rule)
    (mine,) = loaded(rule)
    found = suggest(given, mine, list(batches(given.history, tmp_path)), 1.0, ThresholdTarget(1, None))
    assert [(each.line, each.alerts) for each in found.judged] == [(4, 0), (3, 1), (2, 1), (1, 1)]


def test_around_the_present_line_each_step_is_judged(tmp_path: Path) -> None:
    # Card a has five payments within the minute and b three; each key alerts once, where its count comes to the line.
    rule = {**FORM, "rule_id": "many", "rule_type": "velocity", "group_by": "card", "window": "1m"}
    rule |= {"aggregation_type": "count", "aggregation_threshold": 4}
    given = judged(write(tmp_path / "in.jsonl", PAYMENTS), rule)
    marks = FraudLabels({"8": frozenset({"f"}), "x": frozenset({"g"})}, frozenset({"f", "g"}), 2)
    found = threshold_steps(
        given, loaded(rule)[0], list(batches(given.history, tmp_path)), 2.0, marks, 3, [9], ANY_TIME
    )
    assert found.step == 1
    assert [(each.line, each.alerts, each.per_day) for each in found.judged] == [
        *((1, 2, 1.0), (2, 2, 1.0), (3, 2, 1.0), (4, 1, 0.5), (5, 1, 0.5), (6, 0, 0.0), (7, 0, 0.0), (9, 0, 0.0)),
    ]
    assert found.present.line == 4
