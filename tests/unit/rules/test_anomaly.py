"""``anomaly``: values worked out by hand, held against the key's own past."""

from typing import Any

import pytest

from .scenes import alerts, refused

PAST = [100, 104, 96, 100, 108, 92, 100, 104, 96, 100]  # average 100, sample deviation 4.6188 (squares 192 / 9)
ANOMALY: dict[str, Any] = {
    "rule_type": "anomaly",
    "group_by": "merchant",
    "value_field": "amount",
    "z_score": 3,
    "window": "30d",
}


def scene(*last: int) -> list[dict[str, Any]]:
    return [{"s": n, "merchant": "m1", "amount": amount} for n, amount in enumerate([*PAST, *last])]


def test_an_unusual_amount_for_a_merchant() -> None:
    (alert,) = alerts(ANOMALY, scene(114), batches=2)
    assert (alert["record_id"], alert["key"]) == ("n10", {"merchant": "m1"})
    assert alert["value"] == pytest.approx(14 / 4.618802)
    figures = {name: figure["value"] for name, figure in alert["evidence"]["figures"].items()}
    assert figures == {"average": 100.0, "deviation": pytest.approx(4.618802), "points": 10}
    assert alert["evidence"]["record_ids"] == [f"n{n}" for n in range(10)], "without the record itself"


@pytest.mark.parametrize(
    ("amount", "direction", "fires"),
    [
        (113, None, False),  # 2.81 deviations
        (114, None, True),
        (86, None, True),
        (86, "above", False),
        (86, "below", True),
        (114, "below", False),
    ],
)
def test_the_line(amount: int, direction: str | None, fires: bool) -> None:
    assert bool(alerts({**ANOMALY, "direction": direction}, scene(amount))) is fires


def test_each_outlier_is_reported() -> None:
    """Worked by hand: three cards at one merchant, each far off; the crossing would be the first of them alone."""
    scene_of_three = scene(500, 900, 2_000)
    lines = [alert["record_id"] for alert in alerts({**ANOMALY, "z_score": 2}, scene_of_three)]
    assert lines == ["n10", "n11", "n12"]
    crossing = alerts({**ANOMALY, "z_score": 2, "emit": "on_crossing"}, scene_of_three)
    assert [alert["record_id"] for alert in crossing] == ["n10"]


def test_a_past_that_is_too_short_or_always_the_same_judges_nothing() -> None:
    assert alerts({**ANOMALY, "min_points": 11}, scene(500)) == []
    same = [{"s": n, "merchant": "m1", "amount": 100} for n in range(20)]
    assert alerts(ANOMALY, [*same, {"s": 21, "merchant": "m1", "amount": 101}]) == []


def test_a_multiple_of_what_is_usual() -> None:
    ratio = {**ANOMALY, "z_score": None, "ratio": 2.5}
    assert alerts(ratio, scene(250)) == []
    (alert,) = alerts(ratio, scene(251))
    assert alert["value"] == 2.51
    (low,) = alerts({**ratio, "ratio": 0.5, "direction": "below"}, scene(49))
    assert low["value"] == 0.49


def test_a_stream_may_have_fields_that_are_called_as_its_figures() -> None:
    """A field ``points`` is none of its business, unless it is the one that is judged."""
    rule = {**ANOMALY, "value_field": "points", "group_by": "card"}
    ((path, text),) = refused(rule)
    assert path == "value_field"
    assert "a figure named points" in text
    points = {"rule_type": "burst", "group_by": "points", "window": "1m", "any_of": [{"count": ">= 3"}]}
    assert len(alerts(points, [{"s": n, "points": 7} for n in range(3)])) == 1
    assert alerts({**ANOMALY, "group_by": "points"}, [{**each, "points": 1} for each in scene(114)])


def test_a_sensor_three_deviations_off() -> None:
    """The article's own: readings of a sensor against their mean and deviation."""
    levels = [{"s": n, "card": "sensor-1", "level": 20.0 + (0.5 if n % 2 else -0.5)} for n in range(30)]
    rule = {**ANOMALY, "group_by": "card", "value_field": "level"}
    (alert,) = alerts(rule, [*levels, {"s": 30, "card": "sensor-1", "level": 22.0}])
    assert alert["key"] == {"card": "sensor-1"}
    assert alert["value"] == pytest.approx(2.0 / 0.508548, rel=1e-4)  # sqrt(30 / 29 * 0.25)


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"z_score": None}, "z_score", "z_score: how many"),
        ({"ratio": 2}, "z_score", "or ratio"),
        ({"z_score": 0}, "z_score", "above 0"),
        ({"quantile": 0.99}, "quantile", "not in this version yet"),
        ({"value_field": "country"}, "value_field", "integer or number"),
        ({"value_field": "amuont"}, "value_field", "a field of stream payments"),
        ({"min_points": 1}, "min_points", "2 or more"),
        ({"min_points": 0}, "min_points", "1"),
        ({"z_score": None, "ratio": 2, "direction": "both"}, "direction", "above or below"),
        ({"window": "0s"}, "window", "longer than 0"),
        ({"group_by": "merchnat"}, "group_by", "a field of stream payments"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    ((found, text),) = refused({**ANOMALY, **changes})
    assert found == path
    assert words in text
