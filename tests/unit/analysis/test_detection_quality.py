"""Alerts against alerts and against labels, on what can be counted by hand."""

from __future__ import annotations

from typing import Any

from crossline.analysis.detection_quality import FraudLabels, compare_alert_sets, measure_quality, shadow_report


def alert(rule_id: str, record_id: str, *others: str) -> dict[str, Any]:
    return {
        "alert_id": f"{rule_id}-{record_id}",
        "rule_id": rule_id,
        "stream": "payments",
        "record_id": record_id,
        "event_time": "2026-01-01T00:00:00.000Z",
        "message": "m",
        "evidence": {"record_ids": [*others, record_id]},
    }


# Fraud f1 has two records, f2 one, f3 one that is not asked for.
MARKS = FraudLabels(
    {"p1": frozenset({"f1"}), "p2": frozenset({"f1"}), "p3": frozenset({"f2"}), "p4": frozenset({"f3"})},
    frozenset({"f1", "f2"}),
    9,
)
AMOUNTS = {"p1": 10.0, "p2": 20.0, "p3": 40.0, "p4": 80.0, "p5": 3.0, "p6": 5.0}


def test_precision_recall_and_money() -> None:
    # Two alerts at p5, one of which rests on p2 as well; one on a fraud that is not asked for.
    found = measure_quality(
        [alert("a", "p5", "p2"), alert("b", "p5"), alert("b", "p6"), alert("b", "p4")], MARKS, AMOUNTS
    )
    assert (found.alerts, found.true, found.caught) == (4, 2, {"f1"})
    assert (found.precision, found.recall, found.f1) == (0.5, 0.5, 0.5)
    assert (found.money_caught, found.money_missed, found.money_false) == (30, 40, 8)


def test_nothing_is_no_share() -> None:
    none = measure_quality([], FraudLabels({}, frozenset(), 3))
    assert (none.precision, none.recall, none.f1, none.money_caught) == (None, None, 0.0, None)


def test_sides_share_alerts_that_rest_on_a_record_of_both() -> None:
    one = [alert("a", "p1"), alert("a", "p3"), alert("a", "p9")]
    other = [alert("b", "p8", "p1", "p7"), alert("b", "p6")]
    first, second = compare_alert_sets(one, other, 2.0, MARKS)
    assert (first.alerts, first.shared, first.only, first.per_day, first.caught_alone) == (3, 1, 2, 1.5, 1)
    assert [each["record_id"] for each in first.alone] == ["p3", "p9"]
    assert (second.alerts, second.shared, second.only, second.per_day, second.caught_alone) == (2, 1, 1, 1.0, 0)


def test_the_same_id_in_another_stream_is_another_record() -> None:
    first, _ = compare_alert_sets([alert("a", "p1")], [{**alert("b", "p1"), "stream": "logins"}], 1.0)
    assert first.shared == 0


def test_a_shadow_rule_is_standing_against_active_ones_and_not_against_other_shadow_rules() -> None:
    alerts = [
        alert("new", "p1"),
        alert("new", "p2", "p3"),
        alert("new", "p5"),
        alert("newer", "p5"),
        alert("old", "p1"),
        alert("old", "p2"),
        alert("older", "p3"),
    ]
    new, newer, silent = shadow_report(alerts, {"new", "newer", "silent"}, 1.0, MARKS)
    assert (new.rule_id, new.side.alerts, new.side.shared, new.side.only) == ("new", 3, 2, 1)
    assert dict(new.with_rules) == {"old": 2, "older": 1}
    assert (newer.side.alerts, newer.side.only, dict(newer.with_rules)) == (1, 1, {})
    assert (silent.rule_id, silent.side.alerts) == ("silent", 0)
    assert new.side.weighed is not None
    assert (new.side.weighed.caught, new.side.caught_alone) == ({"f1", "f2"}, 0)
