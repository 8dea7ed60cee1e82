"""``record``: an alert carries the record that was hit, enriched, whatever kind of rule hit it."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import yaml

from crossline.basics.conditions.lists import named_lists
from crossline.basics.streams.schema import StreamSpec, TableSpec, load_streams
from crossline.evaluate.alerts.alert import alert_table
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text, read_rule
from crossline.rules.ruleset import RuleSet

STREAMS = load_streams(
    """
schema_version: 1
streams:
  payments:
    id: number
    event_time: {field: at}
    ingest_time: {field: came}
    fields:
      number: integer
      account: string
      amount: integer
      rate: number?
      ok: boolean?
      place: {city: string?, spot: {lat: number?}}
      opened: timestamp?
      tags: [string]
      seen: "[timestamp]?"
      at: integer
      came: integer
  rates: {id: rate_id, event_time: {field: at}, ingest_time: {field: came},
          fields: {rate_id: string, account: string, rate: number, at: integer, came: integer}}
""",
    "stream.yaml",
)
SPEC = STREAMS["payments"]
OPENED = "2026-01-01T00:00:07.120Z"


def payment(number: int, at_ms: int, amount: int = 60, *, late_ms: int = 0, **more: Any) -> dict[str, Any]:
    fields = {"number": number, "account": "a1", "amount": amount, "at": at_ms, "came": at_ms + late_ms}
    full = {"rate": 0.5, "ok": True, "place": {"city": "Oslo", "spot": {"lat": 59.9}}, "opened": OPENED}
    return {**fields, **full, "tags": ["x", "y"], "seen": [OPENED], **more}


def judged(bodies: list[dict[str, Any]], *batches: list[dict[str, Any]], **defaults: Any) -> list[dict[str, Any]]:
    loaded = load_rules_text(yaml.safe_dump(bodies), "rules.yaml", STREAMS, ["watch"])
    plans = list(compile_all(RuleSet.from_rules(x.rule for x in loaded), STREAMS, Defaults(**defaults)).values())
    state, alerts, start = new_state(2), [], 0
    for batch in batches:
        lines = b"".join(json.dumps(each).encode() + b"\n" for each in batch)
        stream = "rates" if "rate_id" in batch[0] else "payments"
        decoded = decode_lines(make_layout(stream, STREAMS[stream]), lines, stream, start)
        start += len(lines)
        assert decoded.dead == []
        lists = named_lists({"watch": ["a9"]})
        alerts += detect(plans, state, decoded.records, lists=lists)[0].alerts
    return alerts


COMMON: dict[str, Any] = {"version": 1, "source_topic": "payments"}
LARGE = {**COMMON, "rule_id": "large", "rule_type": "threshold"} | {
    "conditions": [{"field": "amount", "operator": ">=", "value": 60}]
}
COUNTED = {**COMMON, "rule_type": "velocity", "aggregation_type": "count", "aggregation_threshold": 1} | {
    "rule_id": "counted",
    "group_by": "account",
    "window": "1m",
    "emit": "every",
}
WORKED: list[dict[str, Any]] = [
    LARGE,
    {**LARGE, "rule_id": "listed", "rule_type": "list", "field": "account", "operator": "not_in", "list": "watch"},
    COUNTED,
    {**COUNTED, "resolution": "10s"},
    {**COUNTED, "late_policy": "reevaluate"},
    {**COMMON, "rule_id": "worked", "rule_type": "formula", "when": "n >= 1", "emit": "every"}
    | {"figures": {"n": {"count": True, "group_by": "account", "window": "1m"}}},
    {**COMMON, "rule_id": "worked", "rule_type": "formula", "when": "n >= 1 and m >= 1", "emit": "every"}
    | {
        "figures": {
            "n": {"count": True, "group_by": "account", "window": "1m"},
            "m": {"count": True, "group_by": "amount", "window": "1m"},
        }
    },
    {**COMMON, "rule_id": "seq", "rule_type": "sequence", "group_by": "account", "within": "1m"}
    | {"steps": [{"name": "one", "times": 1, "conditions": LARGE["conditions"]}, {"name": "two"}]},
]


@pytest.mark.parametrize("body", WORKED, ids=lambda body: body["rule_id"])
def test_all_of_it_nested_as_in_the_stream(body: dict[str, Any]) -> None:
    first, second = payment(1, 1_000), payment(2, 2_000)
    (plain, found) = (judged([{**body, "record": asked}], [first, second])[-1] for asked in ("none", "all"))
    assert "record" not in plain
    assert found["record"] == second  # what stood in the stream, field by field
    assert list(found)[-1] == "record"
    assert {name: value for name, value in found.items() if name != "record"} == plain


def test_of_fields_those_that_are_named() -> None:
    (found,) = judged([{**LARGE, "record": ["place", "amount"]}], [payment(1, 0, place={"city": None})])
    assert found["record"] == {"place": {"city": None, "spot": {"lat": None}}, "amount": 60}
    assert list(found["record"]) == ["place", "amount"]


def test_the_pipeline_says_it_for_rules_that_do_not() -> None:
    found = judged([LARGE, {**COUNTED, "record": "none"}], [payment(1, 0)], record=("account", "nowhere"))
    assert {each["rule_id"]: each.get("record") for each in found} == {"large": {"account": "a1"}, "counted": None}


def test_what_waits_has_the_record_that_it_is_at() -> None:
    """An absence is known long after, in another batch, whose records have other fields."""
    absence = {**COMMON, "rule_id": "absent", "rule_type": "absence", "group_by": "account", "within": "10s"}
    absence |= {"after": LARGE["conditions"], "expect": [{"field": "amount", "operator": "==", "value": 1}]}
    first = payment(1, 1_000, tags=["first"])
    found = judged([{**absence, "record": "all"}], [first], [payment(2, 900_000, 5)])
    assert [(each["record_id"], each["record"]) for each in found] == [("1", first)]


def test_a_correction_carries_the_record_too() -> None:
    summed = {**COUNTED, "aggregation_type": "sum", "aggregation_field": "amount", "aggregation_threshold": 60}
    body = {**summed, "late_policy": "reevaluate", "record": "all", "window": "10s"}
    hit, refund = payment(1, 10_000), payment(2, 9_000, -1, late_ms=3_000)
    alert, correction = judged([body], [hit], [refund])
    assert correction["outcome"] == "retracted"
    assert (alert["record"], correction["record"]) == (hit, hit)
    assert list(correction)[-1] == "record"


def test_rules_of_hits_carry_the_record_that_was_hit() -> None:
    reader = {**COUNTED, "rule_id": "reader", "source_topic": "rule:large", "record": "all"}
    found = judged([LARGE, reader], [payment(1, 0)])
    (mine,) = [each for each in found if each["rule_id"] == "reader"]
    many = {"tags", "seen"}  # hits as records have no fields of many values
    assert mine["record"] == {name: value for name, value in payment(1, 0).items() if name not in many}


def test_of_hits_of_several_rules_it_is_the_record_of_the_last() -> None:
    both = {"rule_id": "both", "version": 1, "rule_type": "composite", "all_of": ["large", "counted"], "window": "1m"}
    found = judged([LARGE, COUNTED, {**both, "join_key": "account", "record": ["place", "number"]}], [payment(1, 0)])
    (mine,) = [each for each in found if each["rule_id"] == "both"]
    assert mine["record"] == {"place": payment(1, 0)["place"], "number": 1}


def test_a_record_that_waited_for_its_context() -> None:
    body = {**COMMON, "rule_id": "met", "rule_type": "correlation", "context_topic": "rates"}
    body |= {"correlation_key": "account", "window": "10s", "context_value_field": "rate", "record": "all"}
    body |= {"metric": "direct", "condition": {"operator": ">", "value": 1}, "context_resolution": "last"}
    first = payment(1, 10_000, tags=["first"])
    rate = {"rate_id": "c", "account": "a1", "rate": 2.0, "at": 9_000, "came": 11_000}
    (found,) = judged([body], [first], [rate])
    assert found["record"] == first


def test_fields_of_tables_are_of_it() -> None:
    table = TableSpec(key={"account": "account"}, fields={"name": "string", "score": "integer"})
    spec = StreamSpec.model_validate({**SPEC.model_dump(mode="json"), "enrich": {"holder": table}})
    body = {**COUNTED, "record": ["holder", "account"]}
    loaded = load_rules_text(yaml.safe_dump(body), "rules.yaml", {"payments": spec})
    plan = compile_all(RuleSet.from_rules(x.rule for x in loaded), {"payments": spec}, Defaults())["payments"]
    assert plan.tables == ("holder",)  # it is joined though no condition reads it
    records = decode_lines(make_layout("payments", SPEC), json.dumps(payment(1, 0)).encode() + b"\n", "log", 0).records
    joined = {"account": records.fields["account"], "number": records.fields["number"]}
    joined |= {"holder.name": pa.array(["Ada"]), "holder.score": pa.array([None], pa.int64())}
    (found,) = detect(plan, new_state(), replace(records, fields=joined))[0].alerts
    assert found["record"] == {"holder": {"name": "Ada", "score": None}, "account": "a1"}


def test_only_requested_fields_travel() -> None:
    loaded = load_rules_text(yaml.safe_dump([COUNTED]), "rules.yaml", STREAMS)
    plans = compile_all(RuleSet.from_rules(x.rule for x in loaded), STREAMS, Defaults())
    assert [state_store.facts for state_store in plans["payments"].state_stores] == [()]
    assert plans["payments"].carried == {}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("al", "did you mean all?"),
        ("amount", "for one field [amount]"),
        ([], "none, all, or a list of fields"),
        (["amuont"], "did you mean amount?"),
        (["hit.value"], "a field of stream payments"),
        (["amount", "amount"], "each field once"),
    ],
)
def test_what_cannot_be_carried_is_reported(asked: Any, text: str) -> None:
    _, findings = read_rule({**COUNTED, "record": asked}, STREAMS, [])
    assert [each.path for each in findings] == [("record",)]
    assert text in f"{findings[0].expected}; {findings[0].hint}"


def test_as_a_table_it_is_a_column() -> None:
    table = alert_table(judged([{**LARGE, "record": ["amount"]}, COUNTED], [payment(1, 0)]))
    assert table.schema.field("record").type == pa.string()
    assert sorted(table["record"].to_pylist(), key=str) == [None, '{"amount":60}']
