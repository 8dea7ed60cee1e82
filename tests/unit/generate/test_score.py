"""Precision and recall, worked by hand."""

from __future__ import annotations

from typing import Any

from crossline.generate.labels import PlantedFraud
from crossline.generate.score import Caught, Raised, score


def label(fraud_id: str, scenario: str, *record_ids: str, complete: bool = True) -> PlantedFraud:
    return PlantedFraud(fraud_id, scenario, record_ids, {"account_id": "a1"}, 0, 1, complete)


def alert(alert_id: str, rule_id: str, record_id: str, *evidence: str) -> dict[str, Any]:
    return {
        "alert_id": alert_id,
        "rule_id": rule_id,
        "record_id": record_id,
        "evidence": {"count": len(evidence), "record_ids": list(evidence)},
    }


def test_a_small_case_by_hand() -> None:
    labels = [
        label("testing-0", "testing", "t1", "t2", "t3"),
        label("testing-1", "testing", "t7"),
        label("mule-0", "mule", "t10", "t11"),
        label("mule-1", "mule", "t20", complete=False),
    ]
    alerts = [
        alert("A", "burst", "t2", "t1", "t2"),  # by its record: testing-0
        alert("B", "burst", "t5", "t4", "t3"),  # by its evidence alone: testing-0 again
        alert("C", "burst", "t5", "t4", "t5"),  # in vain
        alert("D", "fan_in", "t11"),  # mule-0
        alert("E", "fan_in", "t20"),  # a cut fraud: true, and not asked for
    ]
    result = score(alerts, labels)
    assert result.raised == Raised(alerts=5, true=4)
    assert result.raised.precision == 0.8
    assert result.found == Caught(planted=3, caught=2)
    assert result.found.recall == 2 / 3
    assert result.scenarios == {"mule": Caught(1, 1), "testing": Caught(2, 1)}
    assert result.rules == {"burst": Raised(3, 2), "fan_in": Raised(2, 2)}
    assert result.missed == ("testing-1",)
    assert result.false_alerts == ("C",)


def test_one_alert_may_find_two_frauds() -> None:
    labels = [label("x-0", "x", "t1"), label("x-1", "x", "t2")]
    assert score([alert("A", "r", "t2", "t1", "t2")], labels).found == Caught(2, 2)


def test_nothing_raised_has_no_precision_and_nothing_planted_no_recall() -> None:
    nothing = score([], [])
    assert nothing.raised.precision is None
    assert nothing.found.recall is None
    assert score([], [label("x-0", "x", "t1")]).found.recall == 0


def test_an_alert_without_evidence_is_judged_by_its_record() -> None:
    bare = {"alert_id": "A", "rule_id": "r", "record_id": "t1"}
    assert score([bare], [label("x-0", "x", "t1")]).raised.true == 1
