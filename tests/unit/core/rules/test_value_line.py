"""An alert's ``operator`` and ``threshold`` are what its ``value`` is held against, whatever else is asked."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from .scenes import alerts
from .test_anomaly import ANOMALY, scene
from .test_burst import BURST
from .test_geo_velocity import HOUR, OSLO, ROME, TRAVEL

MET = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
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
        assert MET[alert["operator"]](alert["value"], alert["threshold"])


def test_a_sentence_names_the_line_of_its_own_value() -> None:
    told = {**BURST, "description": "{value} {operator} {threshold}", "emit": "every"}
    assert [alert["message"] for alert in alerts(told, [*LARGE, *[{"s": 11, "amount": 0}] * 300])][-1] == "311 > 10"
    assert alerts(told, SMALL)[0]["message"] == "6 > 5"
