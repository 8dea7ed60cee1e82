"""``composite``: hits of several rules worked by hand, what a scan over the members' alerts finds, and refusals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .rulekit import without
from .stream_joins import Row, alerts, payment, refused, row

# Ids as rules may have them: with a dot, and with a digit first.
OFTEN: dict[str, Any] = {
    "rule_id": "a.1",
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "card",
    "aggregation_type": "count",
    "aggregation_threshold": 2,
    "window": "1m",
    "emit": "every",
}
LARGE: dict[str, Any] = {
    "rule_id": "1x",
    "rule_type": "threshold",
    "source_topic": "payments",
    "conditions": [{"field": "amount", "operator": ">", "value": 100}],
}
FAILED: dict[str, Any] = {
    "rule_id": "failed",
    "rule_type": "threshold",
    "source_topic": "logins",
    "conditions": [{"field": "ok", "operator": "==", "value": False}],
}
MEMBERS = [OFTEN, LARGE, FAILED]
BOTH: dict[str, Any] = {
    "rule_id": "c",
    "rule_type": "composite",
    "all_of": ["a.1", "1x"],
    "join_key": "account",
    "window": "1m",
}
ANY: dict[str, Any] = {**without(BOTH, "all_of"), "any_of": ["a.1", "1x", "failed"]}


def pay(name: str, second: float, card: str, amount: int = 1, account: str = "a", came: float | None = None) -> Row:
    return payment(name, second, None, came, card=card, amount=amount, account=account)


def login(name: str, second: float, ok: bool = False, account: str = "a") -> Row:
    return row("logins", name, second, account=account, ok=ok)


def found(rules: Sequence[Mapping[str, Any]], rows: Sequence[Row], rule_id: str = "c") -> list[Row]:
    return [each for each in alerts(rules, rows) if each["rule_id"] == rule_id]


def records(rules: Sequence[Mapping[str, Any]], rows: Sequence[Row], rule_id: str = "c") -> list[str]:
    return [each["record_id"] for each in found(rules, rows, rule_id)]


def test_two_rules_of_other_keys_at_one_account() -> None:
    rows = [
        pay("p1", 0, "c1"),
        pay("p2", 1, "c1"),  # a.1, of card c1
        pay("p3", 2, "c2", 500, account="b"),  # 1x, of another account
        pay("p4", 3, "c3", 500),  # 1x
    ]
    every = alerts([*MEMBERS, {**BOTH, "description": "{value} of {hits} hits at {account}: {a_1}, {of_1x}"}], rows)
    by_rule = {each["rule_id"]: each for each in every if each["key"] != {} or each["record_id"] == "p4"}
    alert = by_rule["c"]
    assert (alert["record_id"], alert["key"], alert["value"]) == ("p4", {"account": "a"}, 2)
    assert (alert["operator"], alert["threshold"], alert["stream"]) == (">=", 2, "payments")
    assert alert["evidence"]["record_ids"] == ["p2", "p4"]
    assert alert["evidence"]["hits"] == [by_rule["a.1"]["alert_id"], by_rule["1x"]["alert_id"]]
    assert alert["message"] == "2 of 2 hits at a: 1, 1"


def test_the_window_is_as_others_are() -> None:
    rows = [pay("p1", 0, "c1", 500), pay("p2", 60, "c1"), pay("p3", 60, "c1")]
    assert records([*MEMBERS, BOTH], rows) == [], "p1 is a minute old"
    rows[0] = pay("p1", 0.001, "c1", 500)
    assert records([*MEMBERS, BOTH], rows) == ["p2"]


def test_it_alerts_when_the_line_is_crossed() -> None:
    rows = [pay(f"p{n}", n, "c1", 500) for n in range(4)] + [pay("p4", 64, "c2", 500), pay("p5", 65, "c2", 500)]
    assert records([*MEMBERS, BOTH], rows) == ["p1", "p5"]
    assert records([*MEMBERS, {**BOTH, "emit": "every"}], rows) == ["p1", "p2", "p3", "p5"]
    assert records([*MEMBERS, {**BOTH, "emit": "every", "cooldown": "2s"}], rows) == ["p1", "p3", "p5"]


def test_a_record_that_several_rules_hit_is_one_alert() -> None:
    (alert,) = found([*MEMBERS, {**ANY, "emit": "every"}], [pay("p1", 0, "c1"), pay("p2", 1, "c1", 500)])
    assert (alert["record_id"], alert["value"]) == ("p2", 2)
    assert alert["evidence"]["record_ids"] == ["p2", "p2"]
    assert len(set(alert["evidence"]["hits"])) == 2


@pytest.mark.parametrize(("least", "expected"), [(1, ["p1"]), (2, ["l1"]), (3, ["p3"])])
def test_so_many_of_several_rules_over_different_streams(least: int, expected: list[str]) -> None:
    rows = [pay("p1", 0, "c1", 500), login("l0", 1, ok=True), login("l1", 2), pay("p2", 3, "c2"), pay("p3", 4, "c2")]
    rule = {**ANY, "at_least": least}
    (alert,) = found([*MEMBERS, rule], rows)
    assert ([alert["record_id"]], alert["value"]) == (expected, least)
    assert alert["stream"] == ("logins" if least == 2 else "payments")
    assert alert["evidence"]["record_ids"] == ["p1", "l1", "p3"][:least]


def test_one_rule_counts_once_however_often_it_hits() -> None:
    rows = [pay(f"p{n}", n, f"c{n}", 500) for n in range(5)]
    assert records([*MEMBERS, {**ANY, "at_least": 2}], rows) == []
    assert records([*MEMBERS, {**ANY, "weights": {"1x": 2}, "threshold": 3}], rows) == []


@pytest.mark.parametrize(
    ("weights", "line", "values"),
    [
        ({"a.1": 40, "1x": 2.5}, 42, [("p3", 43.5)]),
        ({"a.1": 40, "1x": 2.5, "failed": 0}, 42.5, [("p3", 42.5)]),
        ({"1x": 1.5}, 2.5, [("l1", 2.5)]),  # what is not named weighs 1
        ({"1x": 1.5}, 3.5, [("p3", 3.5)]),
        ({"failed": -1, "a.1": 3}, 2, [("p3", 3)]),
        ({"failed": -1e-9, "1x": 1e300}, 1, [("p1", 1e300)]),
    ],
)
def test_weights_are_summed(weights: dict[str, float], line: float, values: list[tuple[str, float]]) -> None:
    rows = [pay("p1", 0, "c1", 500), login("l1", 2), pay("p2", 3, "c2"), pay("p3", 4, "c2")]
    rule = {**ANY, "weights": weights, "threshold": line}
    assert [(each["record_id"], each["value"], each["threshold"]) for each in found([*MEMBERS, rule], rows)] == [
        (name, value, line) for name, value in values
    ]


def test_a_composite_of_a_composite() -> None:
    deep = {**BOTH, "rule_id": "deep", "all_of": ["c", "failed"], "join_key": ["account"]}
    rows = [pay("p1", 0, "c1"), pay("p2", 1, "c1"), pay("p3", 2, "c3", 500), login("l1", 3)]
    every = alerts([deep, *MEMBERS, BOTH], rows)
    (alert,) = (each for each in every if each["rule_id"] == "deep")
    (inner,) = (each for each in every if each["rule_id"] == "c")
    (failed,) = (each for each in every if each["rule_id"] == "failed")
    assert (alert["record_id"], alert["stream"]) == ("l1", "logins")
    assert alert["evidence"]["record_ids"] == ["p3", "l1"]
    assert alert["evidence"]["hits"] == [inner["alert_id"], failed["alert_id"]]


def test_a_composite_beside_its_own_member() -> None:
    """Both are hit at one record, at different depths."""
    deep = {**BOTH, "rule_id": "deep", "all_of": ["c", "1x"]}
    rows = [pay("p1", 0, "c1"), pay("p2", 1, "c1"), pay("p3", 2, "c3", 500)]
    assert records([deep, *MEMBERS, BOTH], rows, "deep") == ["p3"]


def test_other_rules_read_its_hits() -> None:
    twice = {**OFTEN, "rule_id": "twice", "source_topic": "rule:c", "group_by": "country", "window": "1h"}
    rows = [
        pay(f"p{account}{n}", 10 * n + number, account, 500, account) | {"country": "NO"}
        for number, account in enumerate("ab")
        for n in range(2)
    ]
    (alert,) = found([*MEMBERS, BOTH, twice], sorted(rows, key=lambda each: each["at"]), "twice")
    assert (alert["record_id"], alert["key"], alert["value"]) == ("pb1", {"country": "NO"}, 2)


def test_hits_of_shadow_rules_are_for_shadow_rules() -> None:
    rows = [pay("p1", 0, "c1", 500), pay("p2", 1, "c1", 500)]
    trial = {**LARGE, "status": "shadow"}
    assert records([OFTEN, trial, FAILED, BOTH], rows) == []
    (alert,) = found([OFTEN, trial, FAILED, {**BOTH, "status": "shadow"}], rows)
    assert (alert["record_id"], alert["kind"]) == ("p2", "shadow")
    for status in ("draft", "paused", "retired"):
        assert records([OFTEN, {**LARGE, "status": status}, FAILED, BOTH], rows) == []


@pytest.mark.parametrize("order", [["1x", "new"], ["new", "1x"]])
def test_streams_whose_ids_and_times_are_called_otherwise(order: list[str]) -> None:
    known = [{"field": "account", "operator": "exists"}]
    new = {"rule_id": "new", "rule_type": "threshold", "source_topic": "sessions", "conditions": known}
    alone = {"rule_id": "alone", "rule_type": "threshold", "source_topic": "rule:c", "conditions": known}
    more = {**OFTEN, "rule_id": "more", "source_topic": "rule:c", "group_by": "account", "aggregation_threshold": 1}
    rows = [
        pay("p1", 1, "c1", 500),
        {"stream": "sessions", "number": 7, "began": "2026-01-01T00:00:02Z", "account": "a"},
        pay("p2", 3, "c1", 500),
    ]
    both = {**BOTH, "all_of": order, "emit": "every"}
    deep = {**both, "rule_id": "deep", "all_of": ["c", "1x"]}
    every = alerts([LARGE, new, both, alone, more, deep], rows)
    for rule_id in ("c", "alone", "more", "deep"):
        mine = [(each["record_id"], each["stream"]) for each in every if each["rule_id"] == rule_id]
        assert sorted(mine) == [("7", "sessions"), ("p2", "payments")]


def test_its_conditions_are_of_the_hits() -> None:
    rows = [pay("p1", 0, "c1", 500), pay("p2", 1, "c1", 500), pay("p3", 2, "c1", 500)]
    third = {**BOTH, "conditions": [{"field": "hit.value", "operator": ">=", "value": 3}]}
    assert records([*MEMBERS, third], rows) == [], "1x has no value"
    either = [{"any": [*third["conditions"], {"field": "hit.value", "operator": "missing"}]}]
    assert records([*MEMBERS, {**BOTH, "conditions": either}], rows) == ["p3"]


def test_a_hit_without_the_key_has_no_key() -> None:
    rows = [pay("p1", 0, "c1") | {"account": None}, pay("p2", 1, "c1", 500) | {"account": None}]
    assert records([*MEMBERS, BOTH], rows) == []


def test_several_fields_join() -> None:
    rows = [pay("p1", 0, "c1"), pay("p2", 1, "c1"), pay("p3", 2, "c2", 500), pay("p4", 3, "c1", 500)]
    (alert,) = found([*MEMBERS, {**BOTH, "join_key": ["account", "card"]}], rows)
    assert (alert["record_id"], alert["key"]) == ("p4", {"account": "a", "card": "c1"})


def test_members_whose_ids_are_one_name_stay_two() -> None:
    names = ["a.1", "a_1", "a-1", "hits", "value", "min", "and"]
    rules = [{**LARGE, "rule_id": name} for name in names]
    rule = {
        **without(BOTH, "all_of"),
        "any_of": names,
        "at_least": 7,
        "description": "{value}: {a_1}, {a_1_}, {of_hits}",
    }
    (alert,) = found([*rules, rule], [pay("p1", 0, "c1", 500)])
    assert (alert["value"], len(alert["evidence"]["hits"])) == (7, 7)
    assert alert["message"].endswith(": 1, 1, 1")


_MADE = st.tuples(
    st.sampled_from(["pay", "pay", "login"]),
    st.integers(0, 4),  # seconds since the one before
    st.integers(0, 6),  # seconds late
    st.sampled_from("ab"),
    st.sampled_from("xy"),
    st.sampled_from([1, 500]),
)


MANY = settings(
    max_examples=2000 if os.environ.get("CROSSLINE_DEEP") == "1" else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@MANY
@given(
    st.lists(_MADE, max_size=14),
    st.sampled_from(["on_crossing", "every"]),
    st.integers(1, 12),
    st.sampled_from([{"at_least": 1}, {"at_least": 2}, {"weights": {"a.1": 2, "1x": -1.5}, "threshold": 1}]),
)
def test_it_is_what_a_scan_over_the_alerts_of_its_members_finds(
    made: list[tuple[str, int, int, str, str, int]], emit: str, window_s: int, line: dict[str, Any]
) -> None:
    rows, second = [], 10
    for number, (kind, after, late, account, card, amount) in enumerate(made):
        second += after + 1
        if kind == "pay":
            rows.append(pay(f"n{number}", second - late, card, amount, account, came=second))
        else:
            rows.append(login(f"n{number}", second, ok=amount == 1, account=account))
    rule = {**ANY, "window": f"{window_s}s", "emit": emit, **line}
    every = alerts([*MEMBERS, rule], rows)
    by_name = {each["id"]: each for each in rows}
    # Hits come in the order of their records; those of one record in the order of the rules' ids.
    hits = sorted(
        (by_name[each["record_id"]]["came"], each["rule_id"], each) for each in every if each["rule_id"] != "c"
    )
    assert scan([each for *_, each in hits], by_name, rule) == {
        each["record_id"]: (each["value"], tuple(each["evidence"]["hits"])) for each in every if each["rule_id"] == "c"
    }


def scan(hits: Sequence[Row], rows: Mapping[str, Row], rule: Mapping[str, Any]) -> dict[str, tuple[float, Any]]:
    """By record what the rule finds there: the value, and the hits that it rests on."""
    weights = {member: rule.get("weights", {}).get(member, 1) for member in rule["any_of"]}
    line, window_ms = rule.get("threshold", rule.get("at_least")), 1000 * int(rule["window"][:-1])
    body: dict[str, tuple[float, Any]] = {}
    before: dict[str, tuple[bool, int]] = {}
    for number, hit in enumerate(hits):
        record = rows[hit["record_id"]]
        account, at = record["account"], record["at"]
        seen = [
            (rows[each["record_id"]]["at"], place, each)
            for place, each in enumerate(hits[: number + 1])
            if rows[each["record_id"]]["account"] == account and at - window_ms < rows[each["record_id"]]["at"] <= at
        ]
        value = sum(weights[member] for member in {each["rule_id"] for *_, each in seen})
        was, last_at = before.get(account, (False, 0))
        armed = rule["emit"] == "every" or not was or last_at <= at - window_ms
        if value >= line and armed:
            body[hit["record_id"]] = value, tuple(each["alert_id"] for *_, each in sorted(seen, key=lambda e: e[:2]))
        before[account] = value >= line, at
    return body


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"any_of": ["1x", "failed"]}, "all_of", "both all_of and any_of"),
        ({"all_of": None}, "all_of", "rules that must all have hit, or any_of"),
        ({"all_of": []}, "all_of", "a list of the ids of rules"),
        ({"all_of": "a.1"}, "all_of", "a list of the ids of rules"),
        ({"all_of": ["a.1", "A 1"]}, "all_of", "a list of the ids of rules"),
        ({"all_of": ["a.1"]}, "all_of", "several rules"),
        ({"all_of": ["a.1", "a.1"]}, "all_of", "each rule once"),
        ({"all_of": ["a.1", "lx"]}, "all_of[1]", '"lx"; the id of a rule'),
        ({"all_of": ["c", "a.1"]}, "all_of[0]", "rules that do not read their own hits"),
        ({"at_least": 2}, "at_least", "all_of asks for all"),
        ({"weights": {"a.1": 1}, "threshold": 1}, "weights", "all_of asks for all"),
        ({"source_topic": "payments"}, "source_topic", "nothing: it reads the hits of a.1, 1x"),
        ({"join_key": None}, "join_key", "which is required"),
        ({"join_key": []}, "join_key", "the field that hits belong together by"),
        ({"join_key": "acount"}, "join_key", "that the hits of a.1, 1x all have; did you mean account?"),
        ({"join_key": ["account", "crad"]}, "join_key[1]", "did you mean card?"),
        ({"window": None}, "window", "which is required"),
        ({"window": "0s"}, "window", "longer than 0"),
        ({"resolution": "1s"}, "resolution", "no resolution here"),
        ({"group_by": "account"}, "group_by", "unknown field"),
        ({"description": "{a.1}"}, "description", "did you mean a_1?"),
        ({"conditions": [{"field": "amuont", "operator": ">", "value": 1}]}, "conditions[0].field", "amount?"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    body = {name: value for name, value in {**BOTH, **changes}.items() if value is not None}
    ((place, text),) = refused(body, *MEMBERS)
    assert place == path
    assert words in text


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"at_least": 4}, "at_least", "at most 3"),
        ({"at_least": 0}, "at_least", "greater than or equal to 1"),
        ({"weights": {"a.1": 2}}, "threshold", "both weights and threshold"),
        ({"threshold": 2}, "weights", "both weights and threshold"),
        ({"weights": {"a.1": 2}, "threshold": 2, "at_least": 2}, "at_least", "or weights and a threshold"),
        ({"weights": {"a.2": 2}, "threshold": 2}, "weights.a.2", "did you mean a.1?"),
        ({"weights": {"a.1": "two"}, "threshold": 2}, "weights.a.1", "a number"),
        ({"weights": {}, "threshold": 2}, "weights", "a number for each rule"),
        (
            {"weights": {"a.1": 2.5}, "threshold": 5},
            "threshold",
            "at most 4.5, which the rules of any_of weigh together",
        ),
        ({"join_key": "card"}, "join_key", "that the hits of a.1, 1x, failed all have"),
    ],
)
def test_what_is_refused_of_any_of(changes: dict[str, Any], path: str, words: str) -> None:
    ((place, text),) = refused({**ANY, **changes}, *MEMBERS)
    assert place == path
    assert words in text


def test_rules_in_a_ring_are_refused_each() -> None:
    ring = {**BOTH, "rule_id": "d", "all_of": ["c", "1x"]}
    body = refused({**BOTH, "all_of": ["d", "1x"]}, *MEMBERS, ring)
    assert [path for path, _ in body] == ["all_of[0]", "[4].all_of[0]"]
    assert "rule:d reads rule:c reads rule:d" in body[0][1]
