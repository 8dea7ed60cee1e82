"""Near misses: the record that came closest, of keys that never fired, and what was missing there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossline.backtest.trial import try_rules
from crossline.backtest.workbench.near_misses import NearMiss, near_misses

from .samples import count_rule, judged, payment, write

# Card a has three payments in a minute, b two, c one and one much later.
PAYMENTS = [
    payment(1, 0, "a", 100),
    payment(2, 1, "b", 40),
    payment(3, 2, "a", 5),
    payment(4, 3, "a", 7),
    payment(5, 4, "b", 60),
    payment(6, 5, "c", 90),
    payment(7, 300, "c", 1),
]


def missed(folder: Path, *bodies: dict[str, Any]) -> dict[str, list[NearMiss]]:
    given = judged(write(folder / "in.jsonl", PAYMENTS), *bodies)
    return near_misses(given, try_rules(given, folder / "rules"), folder / "probes")


def near_miss_values(misses: list[NearMiss]) -> list[tuple[Any, ...]]:
    return [(each.record_id, dict(each.key), each.value, each.missing) for each in misses]


def test_keys_that_fired_did_not_miss(tmp_path: Path) -> None:
    found = missed(tmp_path, count_rule(aggregation_threshold=3))["many"]
    assert near_miss_values(found) == [("p5", {"card": "b"}, 2, 1), ("p6", {"card": "c"}, 1, 2)]
    assert found[0].why == "2 is not >= 3: 1 is missing"


def test_a_line_from_above(tmp_path: Path) -> None:
    found = missed(tmp_path, count_rule(operator="<", aggregation_threshold=1))["many"]
    assert [each.why for each in found] == ["1 is not < 1"] * 3
    found = missed(tmp_path, count_rule(operator="<", aggregation_threshold=0.5))["many"]
    assert found[0].why == "1 is not < 0.5: 0.5 is too much"


def test_one_line_is_no_nearer_than_another_where_it_asks_for_one_value(tmp_path: Path) -> None:
    assert missed(tmp_path, count_rule(operator="==", aggregation_threshold=9))["many"] == []


def test_a_formula_reports_the_part_that_failed(tmp_path: Path) -> None:
    figures = {
        "tries": {"count": True, "group_by": "card", "window": "1m"},
        "most": {"max": "amount", "group_by": "card", "window": "1m"},
    }
    body = {"rule_id": "f", "version": 1, "rule_type": "formula", "source_topic": "payments", "figures": figures}
    found = missed(tmp_path, {**body, "when": "tries >= 2 and most > 120"})["f"]
    # c fails both parts: it is farther than those that fail one.
    assert near_miss_values(found)[:2] == [("p3", {"card": "a"}, 2, 20), ("p5", {"card": "b"}, 2, 60)]
    assert found[0].why == "tries 2, most 100: not most > 120: 20 is missing"
    assert found[2].missing is None
    assert found[2].why == "tries 1, most 90: not tries >= 2 and not most > 120"


def test_a_rule_that_looks_at_the_record_alone(tmp_path: Path) -> None:
    conditions = [
        {"field": "card", "operator": "!=", "value": "b"},
        {"field": "amount", "operator": ">=", "value": 95},
    ]
    body = {"rule_id": "t", "version": 1, "rule_type": "threshold", "source_topic": "payments"}
    found = missed(tmp_path, {**body, "conditions": conditions})["t"]
    # p5 and p2 fail both; p1 fires. Of the others the nearest to the line come first.
    assert [(each.record_id, each.value, each.missing) for each in found] == [
        ("p6", 90, 5),
        ("p4", 7, 88),
        ("p3", 5, 90),
    ]
    assert found[0].why == "found amount 90; expected amount >= 95: 5 is missing"


def test_of_alternatives_the_nearest(tmp_path: Path) -> None:
    body = {"rule_id": "f", "version": 1, "rule_type": "burst", "source_topic": "payments", "group_by": "card"}
    cases = [{"count": "> 7"}, {"count": "> 2", "avg": "< 20"}]
    found = missed(tmp_path, {**body, "window": "1m", "aggregation_field": "amount", "any_of": cases})["f"]
    # Card a: three payments of 112 together, so that the second case lacks 17.33 of the average and the first 4.
    assert found[0].why == (
        "found 1 payment in 60 s, avg of amount 1; it fires where payments of the same card in 60 s have count > 7, or "
        "count > 2 and avg of amount < 20; not count > 2: 1 is missing"
    )
    p4 = {each.record_id: each.why for each in found}["p4"]
    assert p4.startswith("found 3 payments in 60 s, avg of amount 37.33; it fires where ")
    assert p4.endswith("; not count > 7: 4 is missing")


def test_of_a_formula_times_are_reported_as_times(tmp_path: Path) -> None:
    """Card c was silent for 295 s; the rule asks for less than two minutes, as it is written."""
    figures = {"silent": {"since": True, "group_by": "card", "window": "1h"}}
    body = {"rule_id": "f", "version": 1, "rule_type": "formula", "source_topic": "payments", "figures": figures}
    found = missed(tmp_path, {**body, "when": "silent  < 2m and amount < 2"})["f"]
    assert "silent 4.92 min, amount 1: not silent < 2m: 2.92 min is missing" in [each.why for each in found]


def test_for_rules_without_a_written_formula_it_is_reported_in_words(tmp_path: Path) -> None:
    body = {"rule_id": "f", "version": 1, "rule_type": "anomaly", "source_topic": "payments", "group_by": "card"}
    rule = {**body, "value_field": "amount", "ratio": 2, "min_points": 1, "window": "1h"}
    rows = [payment(1, 0, "a", 100), payment(2, 1, "a", 150), payment(3, 0, "b", 10), payment(4, 1, "b", 19)]
    given = judged(write(tmp_path / "in.jsonl", rows), rule)
    found = near_misses(given, try_rules(given, tmp_path / "rules"), tmp_path / "probes")["f"]
    past = "with 1 or more of the same card in the 60 min before it"
    asked = f"it fires where amount is more than 2 times its average, {past}"
    assert [(each.record_id, each.why) for each in found] == [
        ("p4", f"found amount 19, 1.9 times the usual 10; {asked}; 0.1 times is missing"),
        ("p2", f"found amount 150, 1.5 times the usual 100; {asked}; 0.5 times is missing"),
    ]
    assert [each.missing for each in found] == [0.1, 0.5]
    deviations = {**body, "value_field": "amount", "z_score": 3, "direction": "below", "min_points": 2, "window": "1h"}
    rows = [payment(1, 0, "a", 90), payment(2, 1, "a", 110), payment(3, 2, "a", 90)]
    given = judged(write(tmp_path / "below.jsonl", rows), deviations)
    (low,) = near_misses(given, try_rules(given, tmp_path / "below"), tmp_path / "probes-below")["f"]
    # 10 below an average of 100, at a sample deviation of 14.142.
    assert low.why.startswith("found amount 90, 0.707 deviations below the usual 100; it fires where ")
    assert low.why.endswith("; 2.29 deviations is missing")


def test_of_an_absence_that_was_answered_last(tmp_path: Path) -> None:
    """Card a was answered after 2 s and after 50 s, b after 20 s; nothing answered c; for d there is time left."""
    small, large = ([{"field": "amount", "operator": operator, "value": 50}] for operator in ("<", ">="))
    body = {"rule_id": "vain", "version": 1, "rule_type": "absence", "source_topic": "payments", "group_by": "card"}
    rows = [
        payment(1, 0, "a", 100),
        payment(2, 2, "a", 1),
        payment(3, 5, "b", 100),
        payment(4, 10, "c", 100),
        payment(5, 25, "b", 1),
        payment(6, 100, "a", 100),
        payment(7, 150, "a", 1),
        payment(8, 300, "d", 100),
        payment(9, 301, "e", 1),
    ]
    given = judged(
        write(tmp_path / "in.jsonl", rows), {**body, "after": large, "expect": small, "within": "1m", "cooldown": "5m"}
    )
    trial = try_rules(given, tmp_path / "rules")
    assert [each["record_id"] for each in trial.alerts] == ["p4"]
    found = near_misses(given, trial, tmp_path / "probes")["vain"]
    assert near_miss_values(found) == [("p6", {"card": "a"}, 50_000, 10_000), ("p3", {"card": "b"}, 20_000, 40_000)]
    assert found[0].why == "it waited for amount < 50 within 60 s, which came after 50 s, 10 s before the end"
