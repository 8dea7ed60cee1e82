"""``burst``: the article's own case, and what is refused."""

from typing import Any

import pytest

from .scenes import alerts, refused

BURST: dict[str, Any] = {
    "rule_type": "burst",
    "group_by": "card",
    "window": "2m",
    "aggregation_field": "amount",
    "any_of": [{"count": "> 10"}, {"count": "> 5", "avg": "< 500"}],
}


def test_more_than_ten_in_two_minutes_is_one_alert_at_the_eleventh() -> None:
    (alert,) = alerts(BURST, [{"s": 10 * n, "amount": 5000} for n in range(12)], batches=3)
    assert (alert["record_id"], alert["value"], alert["evidence"]["confidence"]) == ("n10", 11, 0.55)
    assert alert["key"] == {"card": "c1"}
    assert alert["evidence"]["figures"]["avg"]["value"] == 5000
    assert (alert["operator"], alert["threshold"]) == (">", 10)
    assert alert["evidence"]["record_ids"] == [f"n{n}" for n in range(11)]


def test_more_than_five_that_average_less_than_five_are_card_testing() -> None:
    small = [{"s": n, "amount": 300 + n} for n in range(6)]
    (alert,) = alerts(BURST, small)
    assert (alert["record_id"], alert["value"], alert["evidence"]["confidence"]) == ("n5", 6, 0.3)
    assert alert["evidence"]["figures"]["avg"]["value"] == 302.5
    assert alerts(BURST, [{**each, "amount": 500} for each in small]) == [], "500 is not less than 500"
    assert alerts(BURST, small[:5]) == []
    assert alerts(BURST, [{"s": 30 * n, "amount": 300} for n in range(6)]) == [], "one of six is two minutes old"


def test_confidence_ends_at_95_percent() -> None:
    many = alerts({**BURST, "emit": "every"}, [{"s": 0, "amount": 5000} for _ in range(25)])
    assert [alert["evidence"]["confidence"] for alert in many][-7:] == [0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95]
    assert many[0]["evidence"]["confidence"] == 0.55


def test_conditions_say_what_is_counted() -> None:
    rule = {**BURST, "conditions": [{"field": "status", "operator": "==", "value": "declined"}]}
    mixed = [{"s": n, "amount": 5000, "status": "declined" if n % 2 else "ok"} for n in range(22)]
    (alert,) = alerts(rule, mixed)
    assert (alert["record_id"], alert["value"]) == ("n21", 11)


def test_it_is_reported_in_words() -> None:
    body = {**BURST, "description": "{value} on {card} in {window}, {avg} each, {confidence}"}
    (alert,) = alerts(body, [{"s": 0, "amount": 100} for _ in range(6)])
    assert alert["message"] == "6 on c1 in 2 min, 100 each, 0.3"


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"any_of": []}, "any_of", "a list of cases"),
        ({"any_of": [{"cuont": "> 10"}]}, "any_of[0].cuont", "count"),
        ({"any_of": [{"count": 10}]}, "any_of[0].count", "a comparison in quotes"),
        ({"any_of": [{"count": "> ten"}]}, "any_of[0].count", "a comparison in quotes"),
        ({"aggregation_field": None}, "aggregation_field", "the field to take the avg of"),
        ({"any_of": [{"sum": "> 5"}], "aggregation_field": None}, "aggregation_field", "the field to take the sum of"),
        ({"aggregation_field": "country"}, "aggregation_field", "integer or number"),
        ({"aggregation_field": "amuont"}, "aggregation_field", "a field of stream payments"),
        ({"group_by": "crad"}, "group_by", "a field of stream payments"),
        ({"window": "0s"}, "window", "longer than 0"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    ((found, text),) = refused({**BURST, **changes})
    assert found == path
    assert words in text
