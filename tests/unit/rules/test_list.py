"""``list``: what is looked up, at which instant, what its alert shows, and what is refused."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from crossline.basics.conditions.lists import Lists, NamedList, named_lists
from crossline.basics.times import FOREVER_MS
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet

from .rulekit import findings_of, rule, streams

STOLEN: dict[str, Any] = {
    "rule_id": "stolen",
    "version": 1,
    "rule_type": "list",
    "source_topic": "payments",
    "field": "account_id",
    "list": "watch",
}
AT_MS = 1_767_225_600_000
WATCH = named_lists({"watch": ["a1", "a7"]})


def alerts(body: dict[str, Any], records: Sequence[dict[str, Any]], lists: Lists = WATCH) -> list[dict[str, Any]]:
    """``records``: their fields, of which ``s`` is the second at which they came."""
    spec = streams()["payments"]
    plan = compile_stream(RuleSet.from_rules([rule(body)]), "payments", spec, Defaults())
    lines = []
    for number, record in enumerate(records):
        ms = AT_MS + round(1000 * record.get("s", number))
        times = {"event_time": ms - record.get("late_ms", 0), "received_at": ms}
        whole = {"merchant_id": 1, "amount_cents": 5, "status": "ok", "tags": [], "location": {}, "account_id": "a1"}
        own = {name: value for name, value in record.items() if name not in {"s", "late_ms"}}
        lines.append(json.dumps({**whole, "transaction_id": f"t{number}", **times, **own}).encode() + b"\n")
    decoded = decode_lines(make_layout("payments", spec), b"".join(lines), "log", 0)
    assert not decoded.dead, decoded.dead
    return detect(plan, new_state(), decoded.records, lists=lists)[0].alerts


def test_a_hit_shows_the_entry_and_its_list() -> None:
    (alert,) = alerts(STOLEN, [{"account_id": "a2"}, {"account_id": "a7"}])
    assert (alert["record_id"], alert["key"], alert["value"]) == ("t1", {}, None)
    assert alert["evidence"] == {
        "count": 1,
        "record_ids": ["t1"],
        "field": "account_id",
        "operator": "in",
        "list": "watch",
        "figures": {"account_id": "a7"},
    }
    assert alert["message"] == "payment whose account_id a7 is in list watch"


def test_every_record_is_a_hit_and_conditions_say_which_are_looked_at() -> None:
    body = {**STOLEN, "conditions": [{"field": "amount_cents", "operator": ">", "value": 10}]}
    found = alerts(body, [{"amount_cents": 11}, {"amount_cents": 10}, {"amount_cents": 12}])
    assert [alert["record_id"] for alert in found] == ["t0", "t2"]
    assert found[0]["evidence"]["figures"] == {"account_id": "a1", "amount_cents": 11}
    either = {"any": [{"field": "status", "operator": "==", "value": "ok"}, *body["conditions"]]}
    assert len(alerts({**STOLEN, "conditions": either}, [{"account_id": "a9"}, {"account_id": "a1"}])) == 1


def test_not_in_hits_what_an_allow_list_lacks_missing_values_too() -> None:
    body = {**STOLEN, "operator": "not_in", "field": "location.country"}
    countries: list[dict[str, Any]] = [{"location": {"country": each}} for each in ("a1", "zz", None)]
    found = alerts(body, countries)
    assert [alert["record_id"] for alert in found] == ["t1", "t2"]
    assert found[0]["message"] == "payment whose location.country zz is not in list watch"
    assert found[1]["message"] == "payment whose location.country unknown is not in list watch"
    exists = [{"field": "location.country", "operator": "exists"}]
    assert [alert["record_id"] for alert in alerts({**body, "conditions": exists}, countries)] == ["t1"]


def test_an_entry_ends_by_the_ingest_time_of_the_record() -> None:
    """Without an ingest time of its own a log has the running maximum of event time: 10 s from the second record on."""
    ends = NamedList().then([("a1", AT_MS + 10_000), ("a7", FOREVER_MS)], {})
    records: list[dict[str, Any]] = [{"s": 9.999}, {"s": 10}, {"s": 5}, {"s": 11, "account_id": "a7"}]
    found = alerts(STOLEN, records, {"watch": ends})
    assert [alert["record_id"] for alert in found] == ["t0", "t3"]


def test_it_is_reported_in_words() -> None:
    (alert,) = alerts({**STOLEN, "description": "{account_id}, {amount_cents} ({rule_id}): {list}"}, [{}])
    assert alert["message"] == "a1, 5 (stolen): watch"
    assert alert["evidence"]["figures"] == {"account_id": "a1", "amount_cents": 5}


def test_the_list_is_one_of_those_that_the_rule_reads() -> None:
    found = rule({**STOLEN, "conditions": [{"field": "status", "operator": "in", "value": {"list": "watch"}}]})
    assert {name for each in found.all_conditions() for name in each.lists()} == {"watch"}
    assert rule(STOLEN).canonical() == STOLEN


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"field": "acount_id"}, "field", "did you mean account_id?"),
        ({"field": "tags"}, "field", "tags, of type [string]; a field with one value"),
        ({"list": "wacth"}, "list", "did you mean watch?"),
        ({"operator": "contains"}, "operator", "one of in, not_in"),
        ({"description": "{lst}"}, "description", "did you mean list?"),
        ({"list": 7}, "list", "text"),
        ({"field": None}, "field", "text"),
        ({"conditions": [{"field": "statsu", "operator": "exists"}]}, "conditions[0].field", "did you mean status?"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], path: str, words: str) -> None:
    ((found, text),) = findings_of({**STOLEN, **changes})
    assert found == path
    assert words in text


def test_all_that_is_wrong_is_reported_at_once() -> None:
    found = findings_of({**STOLEN, "field": "tags", "list": "x", "operator": "is"})
    assert [path for path, _ in found] == ["operator", "field"], "the list is not looked up by a field that has none"
    assert [path for path, _ in findings_of({**STOLEN, "field": "statsu", "list": ""})] == ["list", "field"]
