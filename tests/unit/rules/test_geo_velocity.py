"""``geo_velocity``: impossible travel, held against distances that atlases give."""

from typing import Any

import pytest

from .scenes import alerts, refused

OSLO = {"place": {"lat": 59.9139, "lon": 10.7522}}
ROME = {"place": {"lat": 41.9028, "lon": 12.4964}}  # 2,007 km from Oslo by great circle
BERGEN = {"place": {"lat": 60.3913, "lon": 5.3221}}  # 305 km from Oslo
TRAVEL: dict[str, Any] = {
    "rule_type": "geo_velocity",
    "group_by": "card",
    "latitude_field": "place.lat",
    "longitude_field": "place.lon",
}
HOUR = 3600


def test_oslo_to_rome_in_an_hour_is_no_flight() -> None:
    (alert,) = alerts(TRAVEL, [{"s": 0, **OSLO}, {"s": HOUR, **ROME}], batches=2)
    assert alert["record_id"] == "n1"
    assert alert["value"] == pytest.approx(2007, rel=2e-3)
    assert alert["evidence"]["km"] == pytest.approx(2007, rel=2e-3)
    assert alert["evidence"]["confidence"] == 0.99
    assert alert["evidence"]["figures"]["elapsed"]["value"] == HOUR * 1000
    assert alert["evidence"]["record_ids"] == ["n0"]


@pytest.mark.parametrize(
    ("hours", "fires"), [(5.0, False), (4.1, False), (3.9, True)]
)  # 2,007 km at 500 km/h take 4.01 hours
def test_the_line(hours: float, fires: bool) -> None:
    assert bool(alerts(TRAVEL, [{"s": 0, **OSLO}, {"s": hours * HOUR, **ROME}])) is fires


def test_confidence_is_a_thousandth_of_the_speed() -> None:
    (alert,) = alerts(TRAVEL, [{"s": 0, **OSLO}, {"s": HOUR / 2, **BERGEN}])
    assert alert["value"] == pytest.approx(610, rel=5e-3)
    assert alert["evidence"]["confidence"] == pytest.approx(0.61, rel=5e-3)


def test_at_the_same_time_any_distance_is_too_far_but_none_is_not() -> None:
    (alert,) = alerts(TRAVEL, [{"s": 0, **OSLO}, {"s": 0, **OSLO}, {"s": 0, **BERGEN}])
    assert alert["record_id"] == "n2"
    assert alerts({**TRAVEL, "min_distance_km": 400}, [{"s": 0, **OSLO}, {"s": 0, **BERGEN}]) == []


def test_each_hit_is_reported_and_records_without_a_place_are_passed_over() -> None:
    nowhere = {"place": {"lat": None, "lon": 10.0}}
    scene = [
        {"s": 0, **OSLO},
        {"s": 10, **nowhere},
        {"s": 60, **ROME},
        {"s": 120, **OSLO},
        {"s": 130, "card": "c2", **ROME},
    ]
    found = alerts(TRAVEL, scene)
    assert [alert["record_id"] for alert in found] == ["n2", "n3"]
    assert found[0]["evidence"]["figures"]["elapsed"]["value"] == 60_000, "since the record that has a place"
    assert [a["record_id"] for a in alerts({**TRAVEL, "emit": "on_crossing"}, scene)] == ["n2"]


def test_where_it_was_too_long_ago_does_not_count() -> None:
    scene = [{"s": 0, **OSLO}, {"s": HOUR, **ROME}]
    assert alerts({**TRAVEL, "window": "59m"}, scene) == []


def test_it_is_reported_in_words() -> None:
    body = {**TRAVEL, "description": "{km} km at {value} km/h by {card}"}
    (alert,) = alerts(body, [{"s": 0, **OSLO}, {"s": HOUR, **ROME}])
    assert alert["message"].startswith("200")
    assert " km/h by c1" in alert["message"]
    (plain,) = alerts(TRAVEL, [{"s": 0, **OSLO}, {"s": HOUR, **ROME}])
    assert plain["message"] == (
        "2,006 km from the payment before by card c1 in 60 min, 2,006 km/h (line: 500 km/h)"  # haversine on a sphere
    )
    (nil,) = alerts(TRAVEL, [{"s": 0, **OSLO}, {"s": 0, **ROME}])
    assert nil["message"] == ("2,006 km from the payment before by card c1 at the same instant (line: 500 km/h)"), (
        "no speed that a person could use"
    )


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"latitude_field": "place.lot"}, "latitude_field", "a field of stream payments"),
        ({"longitude_field": "country"}, "longitude_field", "integer or number"),
        ({"max_speed_kmh": -1}, "max_speed_kmh", "not below 0"),
        ({"group_by": []}, "group_by", "the key that travels"),
        ({"window": "0s"}, "window", "longer than 0"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    ((found, text),) = refused({**TRAVEL, **changes})
    assert found == path
    assert words in text
