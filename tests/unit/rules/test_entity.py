"""``entity`` of rules that keep nothing: the key of their alerts, wherever a key stands."""

import json
from typing import Any

import pytest
import yaml

from crossline.analysis.english import describe_rule as explained
from crossline.basics.conditions.lists import named_lists
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .rulekit import THRESHOLD, findings_of, rule, streams

LISTED: dict[str, Any] = {
    "rule_id": "listed",
    "version": 1,
    "rule_type": "list",
    "source_topic": "payments",
    "field": "status",
    "operator": "not_in",
    "list": "watch",
}
COUNTED = {
    "rule_type": "velocity",
    "version": 1,
    "aggregation_type": "count",
    "aggregation_threshold": 1,
    "emit": "every",
}


def payment(number: int, at_ms: int, account: str = "a1", *, late_ms: int = 0, **more: Any) -> dict[str, Any]:
    times = {"event_time": at_ms, "received_at": at_ms + late_ms}
    fields = {"transaction_id": f"t{number}", "account_id": account, "merchant_id": 7, "amount_cents": 60_000}
    return {**fields, **times, "status": "approved", "tags": [], "location": {}, **more}


def alerts(bodies: list[dict[str, Any]], *payments: dict[str, Any]) -> list[dict[str, Any]]:
    spec = streams()["payments"].model_copy(
        update={"ingest_time": streams()["payments"].event_time.model_copy(update={"field": "received_at"})}
    )
    found = load_rules_text(yaml.safe_dump(bodies), "rules.yaml", {"payments": spec}, ["watch"])
    plans = compile_all(RuleSet.from_rules(each.rule for each in found), {"payments": spec}, Defaults())
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in payments)
    decoded = decode_lines(make_layout("payments", spec), lines, "log", 0)
    assert decoded.dead == []
    lists = named_lists({"watch": ["blocked"]})
    return detect(list(plans.values()), new_state(2), decoded.records, lists=lists)[0].alerts


@pytest.mark.parametrize("body", [THRESHOLD, LISTED])
@pytest.mark.parametrize("name", ["entity", "group_by"])
def test_it_is_the_key_of_the_alert(body: dict[str, Any], name: str) -> None:
    plain, keyed = alerts([body], payment(1, 0)), alerts([{**body, name: ["account_id", "merchant_id"]}], payment(1, 0))
    assert plain[0]["key"] == {}
    assert keyed[0]["key"] == {"account_id": "a1", "merchant_id": 7}
    assert keyed[0]["alert_id"] != plain[0]["alert_id"]
    assert keyed[0]["message"].endswith(" by account a1, merchant 7")


def test_both_names_are_one_rule() -> None:
    one, other = rule(THRESHOLD, entity="account_id"), rule(THRESHOLD, group_by=["account_id"])
    assert (one.to_json(), one.body_digest()) == (other.to_json(), other.body_digest())
    assert one.to_json()["entity"] == ["account_id"]
    assert [path for path, _ in findings_of({**THRESHOLD, "entity": "account_id", "group_by": "status"})] == [
        "group_by"
    ]


@pytest.mark.parametrize(("field", "message"), [("acount_id", "did you mean account_id?"), ("tags", "one value")])
def test_a_field_that_cannot_be_one_is_reported(field: str, message: str) -> None:
    ((path, text),) = findings_of({**THRESHOLD, "entity": field})
    assert path == "entity"
    assert message in text


def test_a_record_that_lacks_it_is_a_hit_without_a_key() -> None:
    body = {**THRESHOLD, "entity": ["account_id", "location.country"]}
    found = alerts([body], payment(1, 0, location={"country": "NO"}), payment(2, 1))
    assert [each["key"] for each in found] == [{"account_id": "a1", "location.country": "NO"}, {}]


def test_rules_of_its_hits_may_read_the_key() -> None:
    reader = {
        **COUNTED,
        "rule_id": "reader",
        "source_topic": "rule:large",
        "group_by": "hit.key.account_id",
        "window": "1m",
    }
    found = alerts([{**THRESHOLD, "entity": "account_id"}, reader], payment(1, 0), payment(2, 1), payment(3, 2, "a2"))
    read = [(each["record_id"], each["key"], each["value"]) for each in found if each["rule_id"] == "reader"]
    assert sorted(read) == [
        ("t1", {"hit.key.account_id": "a1"}, 1),
        ("t2", {"hit.key.account_id": "a1"}, 2),
        ("t3", {"hit.key.account_id": "a2"}, 1),
    ]


def test_a_hit_that_is_taken_back_keeps_its_key() -> None:
    """It reads a rule that judges again: its hits are kept, by the ids of their records, to be taken back."""
    summed = {**COUNTED, "rule_id": "summed", "source_topic": "payments", "group_by": "account_id", "window": "10s"}
    summed |= {"aggregation_type": "sum", "aggregation_field": "amount_cents", "aggregation_threshold": 60_000}
    summed |= {"late_policy": "reevaluate"}
    reader = {**THRESHOLD, "rule_id": "reader", "source_topic": "rule:summed", "entity": ["account_id", "merchant_id"]}
    refund = payment(2, 9_000, late_ms=3_000, amount_cents=-1)
    found = alerts([summed, reader], payment(1, 10_000), refund)
    mine = [each for each in found if each["rule_id"] == "reader"]
    assert [(each["kind"], each["record_id"], each["key"]) for each in mine] == [
        ("alert", "t1", {"account_id": "a1", "merchant_id": 7}),
        ("correction", "t1", {"account_id": "a1", "merchant_id": 7}),
    ]


def test_explain_says_it() -> None:
    found = rule(THRESHOLD, entity="account_id")
    text = explained(found, found.program(streams()["payments"], Defaults()))
    assert "Each of them is a hit, its alert by account_id (without a key where it lacks one)." in text
