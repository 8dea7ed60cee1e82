"""Figures of ``risk``: worked by hand over several streams, keys and fates of late records, and changing rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compile import layout_of
from crossline.plan.compose import compile_all, known_later
from crossline.rules.base import Defaults

from .stream_joins import STREAMS, Row, alerts, loaded, payment, refused, row

HOUR = 3600
LARGE: dict[str, Any] = {
    "rule_id": "large",
    "rule_type": "threshold",
    "source_topic": "payments",
    "score": 40,
    "conditions": [{"field": "amount", "operator": ">", "value": 100}],
}
FAILED: dict[str, Any] = {
    "rule_id": "failed",
    "rule_type": "threshold",
    "source_topic": "logins",
    "score": 8,
    "conditions": [{"field": "ok", "operator": "==", "value": False}],
}
BOTH: dict[str, Any] = {
    "rule_id": "both",
    "rule_type": "composite",
    "all_of": ["large", "failed"],
    "join_key": "account",
    "window": "1h",
    "score": 16,
}
RISKY: dict[str, Any] = {
    "rule_id": "risky",
    "rule_type": "formula",
    "source_topic": "payments",
    "score": 90,
    "figures": {"risk": {"risk": True, "group_by": "account", "half_life": "1h"}},
    "when": "risk > 0",
    "value": "risk",
    "emit": "every",
}
OFTEN: dict[str, Any] = {
    "rule_id": "often",
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 2,
    "window": "1m",
    "score": 20,
}


def pay(name: str, second: float, amount: int = 1, came: float | None = None, account: str = "a", **more: Any) -> Row:
    return payment(name, second, None, came, account=account, amount=amount, **more)


def login(name: str, second: float, account: str = "a", **more: Any) -> Row:
    return row("logins", name, second, account=account, ok=False, **more)


def of(*rule_ids: str, **changes: Any) -> dict[str, Any]:
    return {**RISKY, "figures": {"risk": {**RISKY["figures"]["risk"], "risk": list(rule_ids)}}, **changes}


def risks(rules: Sequence[Mapping[str, Any]], rows: Sequence[Row], rule_id: str = "risky") -> dict[str, Any]:
    """By record the value of the rule's alert."""
    found = [each for each in alerts(rules, rows) if each["rule_id"] == rule_id]
    assert len({each["record_id"] for each in found}) == len(found)
    return {each["record_id"]: each["value"] for each in found}


ROWS = [
    pay("p1", 0, 500),
    login("l1", HOUR),
    pay("p2", HOUR, 5),
    pay("p3", 2 * HOUR, 5),
    pay("p4", 2 * HOUR + 1, 5, account="b"),
    pay("p5", 21 * HOUR + 1, 5),
]


def test_of_all_rules_and_of_some() -> None:
    rules = [LARGE, FAILED, BOTH]
    # The composite has no hit: at l1, p1 is an hour old. At p5 all hits are more than 20 half lives old.
    assert risks([*rules, RISKY], ROWS) == {"p2": 28, "p3": 14}
    assert risks([*rules, of("failed")], ROWS) == {"p2": 8, "p3": 4}
    assert risks([*rules, of("large", "both")], ROWS) == {"p2": 20, "p3": 10}


def test_hits_of_hits_count_and_those_that_rest_on_a_risk_score_do_not() -> None:
    rows = [login("l1", 0), pay("p1", 0.5, 500), pay("p2", HOUR + 0.5)]
    over = {"rule_id": "over", "rule_type": "threshold", "source_topic": "rule:risky", "score": 64}
    over["conditions"] = [{"field": "amount", "operator": ">", "value": 0}]
    found = risks([LARGE, FAILED, BOTH, RISKY, over], rows)
    assert found == {"p1": pytest.approx(8 * 2 ** (-0.5 / HOUR)), "p2": pytest.approx(28 + 4 * 2 ** (-0.5 / HOUR))}
    named = {**of("risky"), "rule_id": "named"}
    assert risks([LARGE, FAILED, BOTH, RISKY, over, named], rows, "named") == {"p2": 45}


def test_an_alert_names_the_hits() -> None:
    rows = [pay("p1", 0, 500), pay("p2", HOUR)]
    large, risky = alerts([LARGE, {**RISKY, "description": "{value} at {account} in {window}"}], rows)
    assert risky["evidence"]["record_ids"] == ["p1"]
    assert risky["evidence"]["alert_ids"] == [large["alert_id"]]
    assert risky["evidence"]["figures"]["risk"]["count"] == 1
    assert risky["message"] == "20 at a in 20 h"


def test_shadow_rules_are_seen_by_shadow_rules() -> None:
    rules = [{**LARGE, "status": "shadow"}, FAILED]
    assert risks([*rules, RISKY], ROWS) == {"p2": 8, "p3": 4}
    assert risks([*rules, {**RISKY, "status": "shadow"}], ROWS) == {"p2": 28, "p3": 14}


def test_a_field_of_another_name_and_one_of_another_type() -> None:
    rows = [login("l1", 0, card=7), pay("p1", 1, 500, card="7"), pay("p2", HOUR + 1, card="7", country="a")]
    by_card = {**RISKY, "figures": {"risk": {"risk": True, "group_by": "card", "half_life": "1h"}}}
    assert risks([LARGE, FAILED, by_card], rows) == {"p2": 20}, "the card of a login is a number"
    named = {"risk": True, "group_by": {"country": "account"}, "half_life": "1h"}
    there = {**RISKY, "figures": {"risk": named}}
    assert risks([LARGE, there], rows) == {"p2": 20}


def test_scores_of_two_entities() -> None:
    rows = [pay("p1", 0, 500, card="c"), pay("p2", 0.5, 500, account="b", card="c"), pay("p3", HOUR, card="c")]
    rule = {**RISKY, "when": "risk + cards > 0", "value": "100 * risk + cards", "figures": dict(RISKY["figures"])}
    rule["figures"]["cards"] = {"risk": True, "group_by": "card", "half_life": "30m"}
    assert risks([LARGE, rule], rows) == {"p2": pytest.approx(40, rel=1e-3), "p3": pytest.approx(2020, rel=1e-3)}


LATE = {"watermark_delay": "10s", "allowed_lateness": "1m"}


def test_very_late_records_add_their_hits_and_nothing_else() -> None:
    rows = [
        pay("p1", HOUR, 1),
        pay("v1", 0, 500, came=HOUR + 1),  # an hour late
        pay("v1", 0, 500, came=HOUR + 2),  # once more
        pay("v2", 0, 500, came=HOUR + 3, account="b"),
        pay("p2", HOUR + 4, 1),
    ]
    every = alerts([LARGE, OFTEN, RISKY], rows)
    assert [(each["rule_id"], each["record_id"]) for each in every] == [("often", "p2"), ("risky", "p2")]
    assert every[1]["value"] == pytest.approx(20 * 2 ** (-4 / HOUR))
    assert risks([{**LARGE, "late_policy": "skip"}, RISKY], rows) == {}
    assert risks([{**LARGE, "time_mode": "processing_time"}, RISKY], rows) == {"p2": pytest.approx(20, rel=1e-3)}


def test_late_ones_count_at_their_own_time() -> None:
    rows = [pay("p1", 100, 1), pay("late", 50, 500, came=101), pay("p2", HOUR + 50), pay("p3", 40, came=102)]
    rows.sort(key=lambda each: each["came"])
    assert risks([LARGE, RISKY], rows) == {"p2": 20}, "p3 happened before the hit"


def test_a_hit_that_is_taken_back_and_one_that_comes_again() -> None:
    again = {**OFTEN, "late_policy": "reevaluate", "allowed_lateness": "1m", "group_by": "account"}
    rows = [
        pay("p1", 0),
        pay("p2", 50),  # the second in a minute: a hit
        pay("p3", 55),
        pay("p4", 30, came=56),  # the line was crossed here: the hit at p2 goes, and this is one
        pay("p5", 65),
        pay("p6", 30 + HOUR),
    ]
    found = risks([again, RISKY], rows)
    assert found["p3"] == pytest.approx(20 * 2 ** (-5 / HOUR))
    assert found["p5"] == pytest.approx(20 * 2 ** (-35 / HOUR))
    assert found["p6"] == 10


def over_time(sets: Sequence[Sequence[Mapping[str, Any]]], batches: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """By record the risk, where each batch is judged by a rule set of its own that goes on from the one before."""
    state, layout, found, ends = new_state(2), None, {}, dict.fromkeys(STREAMS, 0)
    for rules, batch in zip(sets, batches, strict=True):
        plans = list(compile_all(loaded(rules), STREAMS, Defaults(), layout).values())
        layout = layout_of(plans, layout)
        for each in batch:
            stream = each["stream"]
            line = json.dumps({name: value for name, value in each.items() if name != "stream"}).encode() + b"\n"
            decoded = decode_lines(make_layout(stream, STREAMS[stream]), line, f"{stream}.jsonl", ends[stream])
            ends[stream] += len(line)
            detection, state = detect(plans, state, decoded.records)
            found |= {a["record_id"]: a["value"] for a in detection.alerts if a["rule_id"] == "risky"}
    return found


def test_rules_come_and_go_and_the_score_goes_on() -> None:
    """Another rule adds to the score from then on; one that is gone leaves what it added."""
    sets = [[LARGE, RISKY], [LARGE, FAILED, RISKY], [FAILED, RISKY], [FAILED, RISKY]]
    second = [login("l1", HOUR - 1), pay("p2", HOUR)]
    found = over_time(sets, [[pay("p1", 0, 500)], second, [pay("p3", 2 * HOUR, 500)], [pay("p4", 3 * HOUR)]])
    eight = 8 * 2 ** (-1 / HOUR)
    assert found == {
        "p2": pytest.approx(20 + eight),
        "p3": pytest.approx(10 + eight / 2),
        "p4": pytest.approx(5 + eight / 4),
    }


def test_deeper_hits_begin_the_score_of_all_rules_anew() -> None:
    rows = [[pay("p1", 0, 500), pay("p2", HOUR)], [pay("p3", 2 * HOUR, 500), pay("p4", 3 * HOUR)]]
    sets = [[LARGE, FAILED], [LARGE, FAILED, BOTH]]
    assert over_time([[*each, RISKY] for each in sets], rows) == {"p2": 20, "p4": 20}
    named = of("large", "failed")
    assert over_time([[*each, named] for each in sets], rows) == {"p2": 20, "p3": 10, "p4": 25}


def test_a_score_that_hits_known_later_are_part_of_decides() -> None:
    """What reads such hits themselves does not."""
    silent = {"rule_id": "silent", "rule_type": "absence", "source_topic": "payments", "group_by": "account"}
    silent |= {"after": LARGE["conditions"], "expect": LARGE["conditions"], "within": "1m"}
    count = {"count": True, "source_topic": "rule:silent", "group_by": "account", "window": "1h"}
    reader = {**RISKY, "rule_id": "reader", "figures": {"n": count}, "when": "n > 0", "value": None}
    scores = {**RISKY, "figures": {**RISKY["figures"], "cards": {"risk": True, "group_by": "card"}}}
    rules = [silent, reader, {**scores, "when": "risk + cards > 0"}]
    plans = compile_all(loaded(rules), STREAMS, Defaults()).values()
    assert known_later(plans) == {"reader"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"risk": ["large"], "group_by": "country", "half_life": None}, None),
        ({"risk": ["failed"], "group_by": "country"}, "figures.risk.group_by"),
        ({"risk": ["failed"], "group_by": "card"}, "figures.risk.group_by"),
        ({"risk": ["nobody"]}, "figures.risk.risk"),
        ({"risk": ["risky"]}, "figures.risk.risk"),
        ({"window": "101h"}, "figures.risk.window"),
        ({"window": "100h"}, None),
        ({"conditions": [{"field": "amount", "operator": ">", "value": 1}]}, "figures.risk.conditions"),
        ({"include_current": False}, "figures.risk.include_current"),
    ],
)
def test_refusals(changes: dict[str, Any], path: str | None) -> None:
    figure = {name: each for name, each in {**RISKY["figures"]["risk"], **changes}.items() if each is not None}
    found = refused({**RISKY, "figures": {"risk": figure}}, LARGE, FAILED)
    assert [each for each, _ in found] == ([] if path is None else [path])
