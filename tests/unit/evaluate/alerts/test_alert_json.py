"""Alerts as text: what any reader of JSON makes of it, and what comes back, is the alert, to the last digit."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.alerts.alert import AlertMaker, alert_table
from crossline.evaluate.alerts.alert_json import json_bytes, json_value, number_of, read_alert, read_alerts
from crossline.evaluate.alerts.hits import Hit
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

RULE = """
{rule_id: spent, version: 1, rule_type: velocity, source_topic: payments, group_by: account, aggregation_type: sum,
 aggregation_field: amount, aggregation_threshold: 100, window: 10s}
"""
STREAM = load_streams(
    """
schema_version: 1
streams:
  payments:
    format: json
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string, amount: number}
""",
    "test",
)["payments"]
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**94), 2**94),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
    st.floats(allow_nan=False),
)


def alert(value: Any) -> dict[str, Any]:
    rule = RuleSet.from_rules(item.rule for item in load_rules_text(RULE, "rules.yaml"))
    which = rule.versions[0]
    hit = Hit(
        version=which,
        place=(0, "payments", "p", 0, 0, "p"),
        key={"account": "a1"},
        record_id="r1",
        event_ms=0,
        ingest_ms=0,
        value=value,
        count=2,
        window_start_ms=0,
        window_end_ms=10_000,
        record_ids=["r0", "r1"],
        fields={},
        records=None,
    )
    return AlertMaker(which, which.rule.program(STREAM, Defaults())).make(hit, 0)


@given(VALUES)
def test_an_alert_is_read_as_it_was_written(value: Any) -> None:
    made = alert(value)
    raw = json_bytes(made)
    assert json.loads(raw, parse_constant=pytest.fail) == made
    assert read_alert(raw) == made
    assert type(read_alert(raw)["value"]) is type(made["value"])
    assert read_alerts(json_bytes([made, made])) == [made, made]


@given(VALUES)
def test_a_figure_in_the_evidence_is_read_as_it_was_written(value: Any) -> None:
    """A formula's own value may be small where a sum that it read is beyond 64 bits."""
    made = alert(1)
    made["evidence"]["figures"] = {"few": {"value": 3, "count": 1}, "spent": {"value": json_value(value), "count": 2}}
    raw = json_bytes(made)
    assert read_alert(raw) == made
    assert type(read_alert(raw)["evidence"]["figures"]["spent"]["value"]) is type(json_value(value))
    assert read_alerts(json_bytes([made, alert(0.5)])) == [made, alert(0.5)]


def test_infinity_is_reported_as_a_word() -> None:
    assert [json_value(x) for x in (math.inf, -math.inf, 1.5, None)] == ["Infinity", "-Infinity", 1.5, None]
    assert alert(math.inf)["message"] == "sum of amount Infinity by account a1 in 10 s (line: 100)"
    assert alert_table([alert(-math.inf)]).column("value").to_pylist() == [-math.inf]


def test_a_long_sum_is_reported_in_full() -> None:
    made = alert(2**64)
    assert b'"value":18446744073709551616,' in json_bytes(made)
    assert made["message"].startswith("sum of amount 18,446,744,073,709,551,616 by ")
    assert json.loads(alert_table([made]).column("alert")[0].as_py())["value"] == 2**64


@pytest.mark.parametrize(
    ("value", "number"), [(2**63 - 1, 2**63 - 1), (2**64, 2.0**64), ("-Infinity", -math.inf), (1.5, 1.5), (None, None)]
)
def test_a_figure_for_places_of_64_bits(value: Any, number: Any) -> None:
    assert number_of(value) == number
