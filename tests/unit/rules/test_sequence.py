"""``sequence``: the article's guessed code, what ends and what holds back a match, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.programs.program import Emission, SequencePredicate
from crossline.rules.base import Defaults

from .scenes import START_MS, STREAMS, alerts, loaded, refused


def status(value: str) -> list[dict[str, Any]]:
    return [{"field": "status", "operator": "==", "value": value}]


FAILED: dict[str, Any] = {"name": "failed", "times": 3, "conditions": status("bad_cvv")}
SUCCESS: dict[str, Any] = {"name": "success", "conditions": status("ok")}
GUESSED: dict[str, Any] = {
    "rule_type": "sequence",
    "group_by": "card",
    "steps": [FAILED, SUCCESS],
    "until": {"conditions": status("logout")},
    "within": "10m",
}
PAIR: dict[str, Any] = {**GUESSED, "steps": [{**FAILED, "times": 1}, SUCCESS]}


def scene(text: str, **fields: Any) -> list[dict[str, Any]]:
    """``"f0 f5 s10"``: records of one card: f failed, s succeeded, l logged out, x is something else; at a second."""
    body = {"f": "bad_cvv", "s": "ok", "l": "logout", "x": "seen"}
    return [{"status": body[word[0]], "s": float(word[1:]), **fields} for word in text.split()]


def evidence_ids(rule: dict[str, Any], records: list[dict[str, Any]], batches: int = 1) -> list[list[str]]:
    return [alert["evidence"]["record_ids"] for alert in alerts(rule, records, batches)]


@pytest.mark.parametrize("batches", [1, 4])
def test_three_failed_codes_and_then_a_success(batches: int) -> None:
    (alert,) = alerts(GUESSED, scene("x0 f10 f20 x25 f30 s40 s50"), batches)
    assert (alert["record_id"], alert["key"]) == ("n5", {"card": "c1"})
    assert alert["evidence"] == {
        "count": 4,
        "record_ids": ["n1", "n2", "n4", "n5"],
        "steps": [{"name": "failed", "record_ids": ["n1", "n2", "n4"]}, {"name": "success", "record_ids": ["n5"]}],
    }
    assert (alert["value"], alert["operator"], alert["threshold"]) == (4, None, None)
    assert (alert["window_start"], alert["window_end"]) == ("2026-01-01T00:00:10.000Z", "2026-01-01T00:00:40.000Z")
    assert alert["message"] == "failed (3 times), then success by card c1 within 10 min"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f0 f1 s2", []),
        ("f0 f1 f2 l3 s4", []),
        ("f0 f1 f2 s3 l4", [["n0", "n1", "n2", "n3"]]),
        ("f0 f1 f2 f3 s4", [["n1", "n2", "n3", "n4"]]),
        ("f0 f1 f2 s600", [["n0", "n1", "n2", "n3"]]),
        ("f0 f1 f2 s600.001", []),
        ("f0 f1 f2 f300 s601", [["n1", "n2", "n3", "n4"]]),
        ("f0 f2 f1 s3", []),
    ],
)
def test_what_is_a_match(text: str, expected: list[list[str]]) -> None:
    """The last came out of order: the record of second 1 does not follow on that of second 2."""
    assert evidence_ids(GUESSED, scene(text)) == expected


def test_each_key_has_its_own() -> None:
    mine, other = scene("f0 f1 f2 s3"), scene("f0 f1 f2 s3", card="c2")
    mixed = [each for pair in zip(mine, other, strict=True) for each in pair]
    assert sorted(evidence_ids(GUESSED, mixed)) == [["n0", "n2", "n4", "n6"], ["n1", "n3", "n5", "n7"]]
    assert evidence_ids(GUESSED, [*scene("f0 f1"), *scene("f2 s3", card="c2")]) == []
    whole = {name: value for name, value in GUESSED.items() if name != "group_by"}
    (alert,) = alerts(whole, [*scene("f0 f1"), *scene("f2 s3", card="c2")])
    assert (alert["key"], alert["evidence"]["count"]) == ({}, 4)


def test_strict_lets_no_other_record_come_in_between() -> None:
    text = "f0 x1 s2 f3 s4"
    assert evidence_ids(PAIR, scene(text)) == [["n0", "n2"], ["n3", "n4"]]
    assert evidence_ids({**PAIR, "strict": True}, scene(text)) == [["n3", "n4"]]
    seen = [{"field": "status", "operator": "!=", "value": "seen"}]
    assert evidence_ids({**PAIR, "strict": True, "conditions": seen}, scene(text)) == [["n0", "n2"], ["n3", "n4"]]


def test_the_rules_conditions_hold_for_steps_and_until() -> None:
    large = {**PAIR, "conditions": [{"field": "amount", "operator": ">", "value": 9}]}
    records = [{**each, "amount": 10} for each in scene("f0 l1 s2")]
    assert evidence_ids(large, records) == []
    assert evidence_ids(large, [{**each, "amount": 9 if n == 1 else 10} for n, each in enumerate(records)]) == [
        ["n0", "n2"]
    ]
    assert evidence_ids(large, [{**each, "amount": 9 if n == 0 else 10} for n, each in enumerate(scene("f0 s2"))]) == []


def test_a_cooldown_holds_hits_back_and_uses_them_up() -> None:
    text = "f0 s1 f2 s3 f11 s12 s13"
    assert evidence_ids({**PAIR, "cooldown": "11s"}, scene(text)) == [["n0", "n1"], ["n4", "n5"]]
    assert evidence_ids({**PAIR, "cooldown": "11001ms"}, scene(text)) == [["n0", "n1"]]


def test_a_step_of_more_than_fifty_records_shows_the_last() -> None:
    rule = {**GUESSED, "steps": [{**FAILED, "times": 60}, SUCCESS]}
    (alert,) = alerts(rule, [*({"s": n, "status": "bad_cvv"} for n in range(60)), {"s": 60, "status": "ok"}], 7)
    assert (alert["evidence"]["count"], len(alert["evidence"]["record_ids"])) == (61, 50)
    failed, success = alert["evidence"]["steps"]
    assert failed["record_ids"] == [f"n{n}" for n in range(11, 60)]
    assert success["record_ids"] == ["n60"]


def test_a_version_knows_what_came_before_it_and_judges_what_comes_after() -> None:
    """As windows do. What was completed before it is used up."""
    later = {**PAIR, "effective_from": START_MS + 2_000}
    assert evidence_ids(later, scene("f0 f1 s3")) == [["n1", "n2"]]
    assert evidence_ids(later, scene("f0 s1 s3")) == []


def test_a_late_record_takes_steps_and_completes_nothing_where_it_is_skipped() -> None:
    skip = {**PAIR, "late_policy": "skip", "watermark_delay": "5s"}
    assert evidence_ids(skip, scene("x10 f4 s10")) == [["n1", "n2"]], "late by 6 s, and a step all the same"
    assert evidence_ids(skip, scene("f0 x10 s4 s10")) == [], "completed by a late record, and used up"
    assert evidence_ids(PAIR, scene("f0 x10 s4 s10")) == [["n0", "n2"]]
    assert evidence_ids(PAIR, scene("f0 x121 s0.5 s122")) == [["n0", "n3"]], "beyond the lateness allowed it is nothing"


def test_a_record_that_comes_again_takes_no_step() -> None:
    twice = [{**each, "id": f"t{each['s']}"} for each in scene("f0 f0 f1 s2")]
    assert evidence_ids(GUESSED, twice) == []


def test_the_description_names_what_there_is() -> None:
    rule = {**PAIR, "description": "{card}: {count} records of {value} within {window} ({rule_id})"}
    (alert,) = alerts(rule, scene("f0 s1"))
    assert alert["message"] == "c1: 2 records of 2 within 10 min (r)"
    assert refused({**PAIR, "description": "{threshold}"})[0][0] == "description"


def test_what_it_becomes() -> None:
    rule = next(iter(loaded({**GUESSED, "cooldown": "1h", "late_policy": "skip"}).versions)).rule
    program = rule.program(STREAMS["payments"], Defaults())
    assert isinstance(program.verdict, SequencePredicate)
    assert program.verdict.names == ("failed", "failed", "failed", "success")
    assert (program.figures, program.figure, program.window_ms, program.reach_ms) == ((), None, 600_000, 3_600_000)
    assert program.emission == Emission(every=True, cooldown_ms=3_600_000)
    assert program.judge_lateness_ms == 45_000
    assert len(program.conditions) == 3
    assert [each.text for each in rule.all_conditions()[1:]] == [
        "status == bad_cvv",
        "status == ok",
        "status == logout",
    ]


SPAWNED: dict[str, Any] = {
    "rule_type": "sequence",
    "steps": [
        {"name": "started", "group_by": "card", "conditions": status("started")},
        {"name": "child", "group_by": "merchant", "conditions": status("started")},
        {"name": "sent", "group_by": "card", "conditions": status("sent")},
    ],
    "within": "10m",
}


@pytest.mark.parametrize("batches", [1, 3])
def test_a_step_may_have_its_key_under_another_name(batches: int) -> None:
    """A process (card) starts, another starts with it as its parent (merchant), and then the first one sends."""
    records = [
        {"s": 0, "card": "p1", "merchant": "init", "status": "started"},
        {"s": 1, "card": "p2", "merchant": "p1", "status": "started"},
        {"s": 2, "card": "p2", "merchant": "p1", "status": "sent"},
        {"s": 3, "card": "p1", "merchant": "init", "status": "sent"},
        {"s": 4, "card": "p3", "merchant": "p3", "status": "started"},
        {"s": 5, "card": "p3", "merchant": "p3", "status": "sent"},
        {"s": 6, "card": "p4", "status": "started"},
    ]
    (alert,) = alerts(SPAWNED, records, batches)
    assert alert["key"] == {"card": "p1"}
    assert [each["record_ids"] for each in alert["evidence"]["steps"]] == [["n0"], ["n1"], ["n3"]]


def test_a_record_under_one_key_by_two_names_takes_one_step_of_a_match() -> None:
    own = {"card": "p1", "merchant": "p1", "status": "started"}
    (alert,) = alerts(SPAWNED, [{"s": 0, **own}, {"s": 1, **own}, {"s": 2, **own, "status": "sent"}])
    assert alert["evidence"]["record_ids"] == ["n0", "n1", "n2"]


def test_until_may_have_its_key_under_another_name() -> None:
    ended = {**PAIR, "until": {"group_by": "merchant", "conditions": status("logout")}}
    records = scene("f0 l1 s2")
    assert evidence_ids(ended, records) == [["n0", "n2"]], "it is no merchant c1 that logged out"
    assert evidence_ids(ended, [{**each, "merchant": "c1"} for each in records]) == []


def changed(step: dict[str, Any]) -> dict[str, Any]:
    return {**GUESSED, "steps": [FAILED, {**SUCCESS, **step}]}


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ({**GUESSED, "steps": []}, "steps", "a list of steps"),
        ({**GUESSED, "steps": {"a": SUCCESS}}, "steps", "a list of steps"),
        ({**GUESSED, "steps": [SUCCESS]}, "steps", "2 to 1,000 records"),
        ({**GUESSED, "steps": [{**FAILED, "times": 1000}, SUCCESS]}, "steps", "1,001 records"),
        ({**GUESSED, "within": "0s"}, "within", "longer than 0"),
        ({**GUESSED, "within": None}, "within", "longer than 0"),
        ({**GUESSED, "until": "logout"}, "until", "conditions"),
        ({**GUESSED, "until": {"conditions": [{"field": "x", "operator": "exists"}]}}, "until.conditions", "stream"),
        ({**GUESSED, "emit": "on_crossing"}, "emit", "every"),
        ({**GUESSED, "group_by": "cards"}, "group_by", "card"),
        ({**GUESSED, "strict": "yes"}, "strict", "true"),
        (changed({"name": "failed"}), "steps[1].name", "another name"),
        (changed({"name": "a b"}), "steps[1].name", "a name of"),
        (changed({"times": 0}), "steps[1].times", "1"),
        (changed({"time": 2}), "steps[1].time", "times"),
        (changed({"conditions": [{"field": "x", "operator": "exists"}]}), "steps[1].conditions[0].field", "a field"),
        (changed({"group_by": ["card", "merchant"]}), "steps[1].group_by", "as many fields"),
        (changed({"group_by": "amount"}), "steps[1].group_by", "of type string"),
        (changed({"group_by": "cards"}), "steps[1].group_by", "stream"),
        ({**changed({"group_by": "merchant"}), "strict": True}, "steps[1].group_by", "strict"),
        (changed({"source_topic": "logins"}), "steps[1].source_topic", "the name of a stream"),
    ],
)  # fmt: skip
def test_what_is_refused(body: dict[str, Any], path: str, words: str) -> None:
    found = refused(body)
    assert any(each.startswith(path) and words in text for each, text in found), found
