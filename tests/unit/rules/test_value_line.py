"""An alert's ``operator`` and ``threshold`` are what its ``value`` is held against, whatever else is asked."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from crossline.rules.types.composite import CompositeRule
from crossline.rules.types.correlation import CorrelationRule

from .scenes import alerts
from .test_anomaly import ANOMALY, scene
from .test_burst import BURST
from .test_geo_velocity import HOUR, OSLO, ROME, TRAVEL

OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
WINDOW = {"group_by": "card", "window": "10m"}
FORM: dict[str, Any] = {
    "rule_type": "formula",
    "emit": "every",
    "figures": {"tries": {"count": True, **WINDOW}, "spent": {"sum": "amount", **WINDOW}},
}
RATIO = {**ANOMALY, "z_score": None}
LARGE = [{"s": n, "amount": 5000} for n in range(11)]
SMALL = [{"s": n, "amount": 300} for n in range(6)]
TURNED = {**BURST, "any_of": [{"avg": "< 500", "count": "> 5"}, {"count": "> 10"}]}
SPENT = {**BURST, "any_of": [{"count": "> 10"}, {"sum": ">= 1000"}]}
DORMANT = {"rule_type": "dormancy", "group_by": "card", "inactive_for": "1h", "window": "1m", "at_least": 2}
WOKEN = [{"s": 0}, {"s": 1.5 * HOUR}, {"s": 1.5 * HOUR + 1}]


@pytest.mark.parametrize(
    ("rule", "records", "line"),
    [
        # 14 above an average of 100, at a deviation of 4.62: three deviations, not the twenty points.
        ({**ANOMALY, "min_points": 5}, scene(114), (">", 3)),
        ({**ANOMALY, "direction": "above"}, scene(114), (">", 3)),
        ({**ANOMALY, "direction": "below"}, scene(86), ("<", -3)),
        (ANOMALY, scene(86), ("<", -3)),
        ({**RATIO, "ratio": 2.5}, scene(251), (">", 2.5)),
        ({**RATIO, "ratio": 0.5, "direction": "below"}, scene(49), ("<", 0.5)),
        # The speed, not that the distance is above nil.
        (TRAVEL, [{"s": 0, **OSLO}, {"s": HOUR, **ROME}], (">", 500)),
        (TRAVEL, [{"s": 0, **OSLO}, {"s": 0, **ROME}], (">", 500)),
        # The case that holds, wherever it stands; the count of one that asks for none is held against nothing.
        (BURST, LARGE, (">", 10)),
        (BURST, SMALL, (">", 5)),
        (TURNED, LARGE, (">", 10)),
        (TURNED, SMALL, (">", 5)),
        (SPENT, [{"s": 0, "amount": 5000}], (None, None)),
        (DORMANT, WOKEN, (">=", 2)),
        ({**FORM, "when": "spent > 100 and tries >= 1", "value": "tries"}, [{"s": 0, "amount": 200}], (">=", 1)),
        ({**FORM, "when": "tries >= 9 or spent > 100", "value": "spent"}, [{"s": 0, "amount": 200}], (">", 100)),
        ({**FORM, "when": "tries >= 9 or spent > 100", "value": "tries"}, [{"s": 0, "amount": 200}], (None, None)),
        ({**FORM, "when": "not spent <= 100 and tries >= 1"}, [{"s": 0, "amount": 200}], (">", 100)),
        ({**FORM, "when": "spent > 50 * tries", "value": "spent / tries"}, [{"s": 0, "amount": 200}], (None, None)),
    ],
)
def test_the_line_is_that_of_the_value(
    rule: dict[str, Any], records: list[dict[str, Any]], line: tuple[str | None, float | None]
) -> None:
    alert = alerts(rule, records)[-1]
    assert (alert["operator"], alert["threshold"]) == line
    if alert["operator"] is not None:
        assert OPERATORS[alert["operator"]](alert["value"], alert["threshold"])


def test_a_sentence_names_the_line_of_its_own_value() -> None:
    body = {**BURST, "description": "{value} {operator} {threshold}", "emit": "every"}
    assert [alert["message"] for alert in alerts(body, [*LARGE, *[{"s": 11, "amount": 0}] * 300])][-1] == "311 > 10"
    assert alerts(body, SMALL)[0]["message"] == "6 > 5"


@pytest.mark.parametrize(
    ("rule", "records", "text"),
    [
        (ANOMALY, scene(114), "amount 114 by merchant m1, 3.03 deviations above the usual 100 (line: 3)"),
        (ANOMALY, scene(86), "amount 86 by merchant m1, 3.03 deviations below the usual 100 (line: 3)"),
        ({**RATIO, "ratio": 2.5}, scene(251), "amount 251 by merchant m1, 2.51 times the usual 100 (line: 2.5)"),
        (BURST, SMALL, "6 payments by card c1 in 2 min, avg of amount 300 (line: > 5)"),
        (SPENT, [{"s": 0, "amount": 5000}], "1 payment by card c1 in 2 min, sum of amount 5,000"),
        (DORMANT, WOKEN, "2 payments by card c1 in 60 s after 90 min of silence (line: 2)"),
        (
            {**FORM, "when": "spent > 100 and tries >= 1"},
            [{"s": 0, "amount": 2**62}, {"s": 1, "amount": 2**62}, *[{"s": 2, "amount": 2**62}] * 3],
            "spent 2.306e+19, tries 5 by card c1",
        ),
    ],
)
def test_the_sentence_of_a_rule_without_a_description_is_in_words(
    rule: dict[str, Any], records: list[dict[str, Any]], text: str
) -> None:
    assert alerts(rule, records)[-1]["message"] == text


MARKET: dict[str, Any] = {
    "rule_id": "r",
    "version": 1,
    "rule_type": "correlation",
    "source_topic": "payments",
    "context_topic": "fx_rates",
    "correlation_key": "pair",
    "window": "5m",
    "context_value_field": "rate",
    "context_resolution": "last",
}
MEAN_FINDING = (
    "rate 8 by pair EURUSD, 3.5 deviations above the mean rate of fx rates, 1, of the same instant "
    "(line: > 3 deviations)"
)
ABOVE = {"operator": ">", "value": 3}
OF_MEAN = {**MARKET, "context_resolution": "mean", "event_value_field": "rate"}


@pytest.mark.parametrize(
    ("rule", "value", "read", "text"),
    [
        (
            {**MARKET, "condition": {"operator": ">=", "value": 3}},
            3.2,
            {"context": 3.2, "context_age": 1500},
            "last rate of fx rates by pair EURUSD 3.2, 1.5 s before (line: >= 3)",
        ),
        (
            {**OF_MEAN, "metric": "difference", "condition": {"operator": "<", "value": -3}},
            -3.2,
            {"rate": 1, "context": 4.2, "context_age": 0},
            "rate 1 by pair EURUSD, 3.2 below the mean rate of fx rates, 4.2, of the same instant (line: < -3)",
        ),
        (
            {
                **OF_MEAN,
                "context_resolution": "mean_std",
                "metric": "z_score",
                "condition": {"operator": ">", "value": 3},
            },
            3.5,
            {"rate": 8, "context": 1, "context_age": 0},
            MEAN_FINDING,
        ),
    ],
)
def test_the_sentence_of_a_correlation(rule: dict[str, Any], value: float, read: dict[str, Any], text: str) -> None:
    made, line = CorrelationRule.model_validate(rule), rule["condition"]
    assert made.sentence(value, line["value"], line["operator"], None, {"pair": "EURUSD"}, 1, read) == text


@pytest.mark.parametrize(
    ("members", "value", "line", "text"),
    [
        ({"all_of": ["a.1", "b"]}, 2, 2, "a.1 (3 times) and b hit by account a1 in 60 min (line: 2 of 2 rules)"),
        (
            {"any_of": ["a.1", "b"], "weights": {"a.1": 2.5}, "threshold": 3},
            3.5,
            3,
            "a.1 (3 times) and b hit by account a1 in 60 min, weight 3.5 (line: weight 3)",
        ),
    ],
)
def test_the_sentence_of_a_composite(members: dict[str, Any], value: float, line: float, text: str) -> None:
    body = {"rule_id": "r", "version": 1, "rule_type": "composite", "join_key": "account", "window": "1h", **members}
    made = CompositeRule.model_validate(body)
    assert made.sentence(value, line, ">=", None, {"account": "a1"}, 1, {"hits": 4, "a_1": 3, "b": 1}) == text
