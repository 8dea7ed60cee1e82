"""Alerts: ids against the standard library's UUIDs, fields against a worked example."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.fields import canonical_key
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.alerts.alert import ALERT_SCHEMA, AlertMaker, alert_id, alert_table
from crossline.evaluate.alerts.hits import Hit, WindowRecord
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleVersion

# Written out: ids are a promise to other programs.
NAMESPACE = uuid.UUID("7d0f6f8e-8c1c-5e0b-9a53-2f1b2c3d4e5f")
T0 = 1_767_225_607_120  # 2026-01-01T00:00:07.120Z
STREAM = load_streams(
    """
schema_version: 1
streams:
  payments:
    format: json
    id: transaction_id
    event_time: {field: event_time, unit: ms}
    fields: {transaction_id: string, account_id: string, amount_cents: integer, event_time: integer}
""",
    "test",
)["payments"]

FIELDS = [
    *(
        "schema_version",
        "alert_id",
        "kind",
        "rule_id",
        "rule_version",
        "rule_type",
        "severity",
        "score",
        "action",
        "key",
    ),
    *(
        "stream",
        "record_id",
        "event_time",
        "ingest_time",
        "value",
        "operator",
        "threshold",
        "window_start",
        "window_end",
    ),
    *("evidence", "message", "corrects", "detected_at", "delivered_at"),
]


def version(kind: str = "active", **changes: Any) -> RuleVersion:
    """The rule card_burst of the example, with ``changes`` (None: left out)."""
    body = {
        "rule_id": "card_burst",
        "version": 3,
        "rule_type": "velocity",
        "source_topic": "payments",
        "group_by": "account_id",
        "aggregation_type": "count",
        "aggregation_threshold": 10,
        "window": "60s",
        "severity": "high",
        "score": 40,
        "action": "step_up",
        **changes,
    }
    text = json.dumps({name: value for name, value in body.items() if value is not None})
    return RuleVersion(load_rules_text(text, "rule.json")[0].rule, kind=kind)  # type: ignore[arg-type]


def threshold_version() -> RuleVersion:
    condition = [{"field": "amount_cents", "operator": ">=", "value": 1000}]
    unused = dict.fromkeys(("group_by", "aggregation_type", "aggregation_threshold", "window"))
    return version(rule_type="threshold", conditions=condition, **unused)


def make(which: RuleVersion, **changes: Any) -> dict[str, Any]:
    hit: dict[str, Any] = {
        "key": {"account_id": "a1"},
        "record_id": "t0000007",
        "event_ms": T0,
        "ingest_ms": T0 + 60,
        "value": 10,
        "count": 10,
        "window_start_ms": T0 - 60_000,
        "window_end_ms": T0,
        "record_ids": [f"t{i}" for i in range(10)],
        "fields": {},
        "records": None,
    }
    whole = Hit(version=which, place=(0, "payments", "p", 0, 0, "p"), **{**hit, **changes})
    return AlertMaker(which, which.rule.program(STREAM, Defaults())).make(whole, T0 + 200)


def test_the_example_of_the_contract() -> None:
    name = 'card_burst\x1f3\x1f{"account_id":"a1"}\x1ft0000007'
    assert make(version()) == {
        "schema_version": 1,
        "alert_id": str(uuid.uuid5(NAMESPACE, name)),
        "kind": "alert",
        "rule_id": "card_burst",
        "rule_version": 3,
        "rule_type": "velocity",
        "severity": "high",
        "score": 40,
        "action": "step_up",
        "key": {"account_id": "a1"},
        "stream": "payments",
        "record_id": "t0000007",
        "event_time": "2026-01-01T00:00:07.120Z",
        "ingest_time": "2026-01-01T00:00:07.180Z",
        "value": 10,
        "operator": ">=",
        "threshold": 10,
        "window_start": "2025-12-31T23:59:07.120Z",
        "window_end": "2026-01-01T00:00:07.120Z",
        "evidence": {"count": 10, "record_ids": ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"]},
        "message": "10 payments by account a1 in 60 s (line: 10)",
        "corrects": None,
        "detected_at": "2026-01-01T00:00:07.320Z",
        "delivered_at": None,
    }


def test_fields_stand_in_the_order_of_the_contract() -> None:
    assert list(make(version())) == FIELDS
    assert list(make(threshold_version())) == FIELDS


@given(rule_id=st.text("abc_.-0", min_size=1), number=st.integers(1, 10**6), key=st.text(), record=st.text())
def test_ids_are_those_of_the_standard_library(rule_id: str, number: int, key: str, record: str) -> None:
    key_json = canonical_key({"k": key})
    assert key_json == json.dumps({"k": key}, ensure_ascii=False, separators=(",", ":"))
    expected = str(uuid.uuid5(NAMESPACE, "\x1f".join((rule_id, str(number), key_json, record))))
    assert alert_id(rule_id, number, key_json, record) == expected


def test_a_key_of_several_fields_keeps_the_order_of_group_by() -> None:
    assert canonical_key({"z": 1, "a": "x", "b": True, "c": 1.5}) == '{"z":1,"a":"x","b":true,"c":1.5}'
    key = {"merchant_id": "m1", "account_id": "a1"}
    alert = make(version(group_by=["merchant_id", "account_id"]), key=key)
    assert list(alert["key"]) == ["merchant_id", "account_id"]
    assert alert["alert_id"] == alert_id("card_burst", 3, '{"merchant_id":"m1","account_id":"a1"}', "t0000007")


def test_a_threshold_rule_has_no_window_and_shows_what_it_read() -> None:
    nothing = dict.fromkeys(("value", "window_start_ms", "window_end_ms"))
    hit = {"key": {}, "count": 1, "record_ids": ["t0000007"], "fields": {"amount_cents": 2500}}
    alert = make(threshold_version(), **nothing, **hit)
    assert [alert[name] for name in ("value", "operator", "threshold", "window_start", "window_end")] == [None] * 5
    assert alert["evidence"] == {"count": 1, "record_ids": ["t0000007"], "figures": {"amount_cents": 2500}}
    assert alert["message"] == "payment where amount_cents >= 1000"


def test_a_shadow_version_makes_shadow_alerts() -> None:
    assert make(version("shadow"))["kind"] == "shadow"


def test_of_more_than_fifty_ids_the_latest_fifty_stay_with_the_true_count() -> None:
    evidence = make(version(), count=73, record_ids=[f"t{i}" for i in range(73)])["evidence"]
    assert evidence == {"count": 73, "record_ids": [f"t{i}" for i in range(23, 73)]}


def test_records_are_shown_where_the_rule_lists_them() -> None:
    records = [WindowRecord("t0", T0, 5), WindowRecord("t1", T0 + 1, None)]
    assert make(version(emit_mode="window"), records=records)["evidence"]["records"] == [
        {"record_id": "t0", "time": "2026-01-01T00:00:07.120Z", "value": 5},
        {"record_id": "t1", "time": "2026-01-01T00:00:07.121Z"},
    ]


def test_what_the_rule_gives_beyond_the_contract_follows_it() -> None:
    given_ = {"sink_topic": "alerts.cards", "owner": "risk", "tags": ["pci"], "emit_to_sink": False}
    alert = make(version(**given_))
    assert {name: alert[name] for name in list(alert)[len(FIELDS) :]} == given_


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (59_999, "1970-01-01T00:00:59.999Z"),
        (951_782_400_005, "2000-02-29T00:00:00.005Z"),
        (-(10**15), "0001-01-01T00:00:00.000Z"),
        (10**15, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_instants(ms: int, text: str) -> None:
    assert make(version(), event_ms=ms)["event_time"] == text


def test_alerts_as_a_table() -> None:
    alerts = [make(version(), value=2.5), make(threshold_version(), value=None, window_start_ms=None)]
    table = alert_table(alerts)
    assert table.schema == ALERT_SCHEMA
    first, second = table.to_pylist()
    assert first["event_time"] == datetime(2026, 1, 1, 0, 0, 7, 120_000, tzinfo=UTC)
    assert (first["value"], first["threshold"], first["rule_version"]) == (2.5, 10.0, 3)
    assert first["key"] == '{"account_id":"a1"}'
    assert orjson.loads(first["evidence"])["count"] == 10
    assert orjson.loads(first["alert"]) == alerts[0]
    assert (second["value"], second["window_start"], second["delivered_at"]) == (None, None, None)


def test_an_empty_table_has_the_schema() -> None:
    assert (alert_table([]).schema, alert_table([]).num_rows) == (ALERT_SCHEMA, 0)


def test_an_integer_that_no_double_holds_is_exact_in_the_alert() -> None:
    row = alert_table([make(version(), value=2**53 + 1)]).to_pylist()[0]
    assert row["value"] == float(2**53)
    assert orjson.loads(row["alert"])["value"] == 2**53 + 1
