"""``dormancy``: scenes worked out by hand, in days (d) and seconds (s)."""

from typing import Any

import pytest

from .scenes import alerts, refused

DAY_S = 86_400
DORMANT: dict[str, Any] = {
    "rule_type": "dormancy",
    "group_by": "card",
    "inactive_for": "90d",
    "window": "1h",
    "conditions": [{"field": "amount", "operator": "<=", "value": 200}],
}


def at(days: float, seconds: float = 0, amount: int = 100, **more: Any) -> dict[str, Any]:
    return {"s": days * DAY_S + seconds, "amount": amount, **more}


def alerted_ids(records: list[dict[str, Any]], batches: int = 1, **changes: Any) -> list[str]:
    return [alert["record_id"] for alert in alerts({**DORMANT, **changes}, records, batches)]


def test_a_dormant_account_testing_small_amounts() -> None:
    records = [at(0, amount=9000), at(93), at(93, 60), at(93, 1800), at(93, 3599)]
    (alert,) = alerts({**DORMANT, "at_least": 3}, records, batches=5)
    assert (alert["record_id"], alert["key"], alert["value"]) == ("n3", {"card": "c1"}, 3)
    assert (alert["operator"], alert["threshold"]) == (">=", 3)
    evidence = alert["evidence"]
    assert (evidence["count"], evidence["record_ids"]) == (3, ["n1", "n2", "n3"])
    figures = {name: figure["value"] for name, figure in evidence["figures"].items()}
    assert figures == {"matching": 3, "woke": 1_800_000, "last_seen": (93 * DAY_S + 1800) * 1000}
    assert evidence["silent_days"] == 93
    assert alert["message"] == "3 payments by card c1 in 60 min after 93 days of silence (line: 3)"


@pytest.mark.parametrize(
    ("last_ms_before", "fires"),
    [(90 * DAY_S * 1000, True), (90 * DAY_S * 1000 - 1, False)],
)
def test_the_silence_is_measured_to_the_waking_not_to_the_record_that_is_judged(
    last_ms_before: int, fires: bool
) -> None:
    """The window of the second record after waking ends an hour before it, and must not count as silence."""
    woken_s = 100 * DAY_S
    records: list[dict[str, Any]] = [
        {"s": woken_s - last_ms_before / 1000, "amount": 9000},
        {"s": woken_s, "amount": 9000},
    ]
    records.append({"s": woken_s + 3599, "amount": 100})
    assert alerted_ids(records) == (["n2"] if fires else [])


def test_what_wakes_it_need_not_meet_the_conditions_and_any_record_breaks_the_silence() -> None:
    assert alerted_ids([at(0), at(91, 0, 9000), at(91, 10)]) == ["n2"]
    assert alerted_ids([at(0), at(50, 0, 9000), at(91)]) == [], "a large one 50 days ago is no silence"
    assert alerted_ids([at(0), at(91, 0, 9000), at(91, 3600)]) == [], "an hour after it woke is too late"


def test_each_waking_is_reported_once_and_the_next_one_again() -> None:
    twice = [at(0), at(91), at(91, 1), at(182), at(182, 1)]
    assert alerted_ids(twice) == ["n1", "n3"]
    assert alerted_ids(twice, known_for="365d", batches=3) == ["n1", "n3"], "however far back is known"
    assert alerted_ids(twice, emit="every") == ["n1", "n2", "n3", "n4"]
    assert alerted_ids(twice, cooldown="92d") == ["n1"]


def test_a_key_that_is_not_known_was_not_silent_unless_the_rule_says_so() -> None:
    new = [at(0), at(200)]
    assert alerted_ids(new) == [], "180 days are known, and there is nothing in them"
    assert alerted_ids(new, known_for="201d") == ["n1"]
    assert alerted_ids(new, include_unseen=True) == ["n0", "n1"]
    (first, _) = alerts({**DORMANT, "include_unseen": True}, new)
    assert first["message"] == "1 payment by card c1 in 60 min, and none known in 180 d before (line: 1)"


def test_keys_are_apart() -> None:
    assert alerted_ids([at(0), at(50, card="c2"), at(91), at(91, card="c2")]) == ["n2"]


def test_disorder_is_judged_at_its_own_time() -> None:
    """n2 happened a minute before n1 and came after it: it sees what was before it, and is its own waking's first."""
    assert alerted_ids([at(0), at(91, 60, 9000), at(91)]) == ["n2"]
    # A late record that breaks the silence: what was judged before it stays, and those after it find no silence.
    late = [at(0), at(91, 60), at(91, -30, 9000), at(91, 61)]
    assert alerted_ids(late, emit="every") == ["n1", "n3"], "it woke at 91 d less 30 s, after 90 days and more"
    assert alerted_ids([at(0), at(90, 60), at(90, -30, 9000), at(90, 61)], emit="every") == ["n1"], "woken too early"


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"window": "0s"}, "window", "longer than 0"),
        ({"inactive_for": "59m"}, "inactive_for", "at least window, which is 60 min"),
        ({"known_for": "90d"}, "known_for", "inactive_for and window together, which are"),
        ({"group_by": []}, "group_by", "the key that is silent"),
        ({"group_by": "crad"}, "group_by", "a field of stream payments"),
        ({"at_least": 0}, "at_least", "1"),
        ({"conditions": [{"field": "amuont", "operator": "exists"}]}, "conditions[0].field", "a field of stream"),
        ({"inactive_for": None}, "inactive_for", "such as 90d"),
        ({"description": "{silence}"}, "description", "in braces"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    ((found, text),) = refused({**DORMANT, **changes})
    assert found == path
    assert words in text
