import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.times import YEAR_1_MS, YEAR_10000_MS
from crossline.rules.base import Defaults, Lateness, legal_move, legal_moves

from .rulekit import THRESHOLD, VELOCITY, findings_of, rule, without

STATUSES = ["draft", "shadow", "active", "paused", "retired"]


def test_the_envelope_has_defaults() -> None:
    plain = rule(THRESHOLD)
    assert (plain.status, plain.severity, plain.score, plain.action) == ("active", "medium", 0, "allow")
    assert (plain.owner, plain.tags, plain.sink_topic, plain.effective_from) == (None, (), None, None)


def test_the_envelope_in_full() -> None:
    full = rule(
        THRESHOLD,
        status="shadow",
        sink_topic="alerts",
        severity="critical",
        score=100,
        action="block",
        owner="risk",
        tags=["a", "b"],
        effective_from="2026-01-01T00:00:00Z",
        time_mode="processing_time",
        watermark_delay=3,
        allowed_lateness="1m",
        late_policy="skip",
    )
    assert full.effective_from == 1_767_225_600_000
    assert (full.watermark_delay, full.allowed_lateness) == (3000, 60_000)
    assert full.tags == ("a", "b")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rule_id", "Large Payment", "for instance large_payment"),
        ("rule_id", "x" * 65, "1 to 64 characters"),
        ("version", 0, "greater than or equal to 1"),
        ("version", "1", "a whole number"),
        ("version", True, "a whole number"),
        ("status", "live", "one of draft, shadow, active, paused, retired"),
        ("severity", "hihg", "did you mean high?"),
        ("score", 101, "less than or equal to 100"),
        ("action", "blok", "did you mean block?"),
        ("tags", "a", "a list of texts"),
        ("owner", 5, "text"),
        ("effective_from", "2026-01-01", "an instant such as"),
        ("source_topic", "payment", "did you mean payments?"),
        ("source_topic", "rule:burst", "rule: and the id of a rule"),
        ("late_policy", "ignore", "one of evaluate, reevaluate, skip"),
        ("resolution", "1m", "no resolution here"),
        ("watermark_delay", "3 parsecs", "a duration such as"),
        ("time_mode", "ingest_time", "one of event_time, processing_time"),
        ("timestamp_field", "evnt_time", "did you mean event_time?"),
        ("timestamp_field", "received_at", "clocks: {received_at: {field: received_at, unit: …}}"),
        ("sevrity", "high", "did you mean severity?"),
    ],
)
def test_says_what_is_wrong_with_a_field(field: str, value: Any, words: str) -> None:
    problems = findings_of({**THRESHOLD, field: value})
    assert [path for path, _ in problems] == [field]
    assert words in problems[0][1]


def test_panes_keep_nothing_that_could_be_judged_again() -> None:
    again = {"late_policy": "reevaluate"}
    figures = {"seen": {"count": True, "group_by": "account_id", "window": "1h", "resolution": "1m"}}
    formula = {**THRESHOLD, "rule_type": "formula", "conditions": None, "figures": figures, "when": "seen > 1"}
    for body in ({**VELOCITY, "resolution": "1s"}, formula):
        assert [(path, "panes keep no records" in text) for path, text in findings_of({**body, **again})] == [
            ("late_policy", True)
        ]
    assert findings_of({**VELOCITY, **again}) == []


def test_what_has_a_risk_score_is_not_judged_again_and_what_has_several_keys_is() -> None:
    mine = {"count": True, "group_by": "account_id", "window": "1h"}
    again = {**THRESHOLD, "rule_type": "formula", "conditions": None, "when": "a > b", "late_policy": "reevaluate"}
    expected = "evaluate or skip beside a risk score, which is that of then; what is corrected, in another rule"
    for key in ("account_id", "merchant_id"):
        risk = {**again, "figures": {"a": mine, "b": {"risk": True, "group_by": key}}}
        assert findings_of(risk) == [("late_policy", f"reevaluate; {expected}; None")]
        assert findings_of({**again, "figures": {"a": mine, "b": {**mine, "group_by": key, "window": "2h"}}}) == []


@pytest.mark.parametrize("field", ["rule_id", "version", "source_topic"])
def test_says_what_is_missing(field: str) -> None:
    assert findings_of(without(THRESHOLD, field)) == [(field, f"nothing; field {field}, which is required; None")]


def test_bounds_of_lateness_stand_in_order() -> None:
    assert findings_of({**THRESHOLD, "watermark_delay": "5m", "allowed_lateness": "2m"}) == [
        ("allowed_lateness", "2 min; at least watermark_delay, which is 5 min; None")
    ]


def test_all_that_is_wrong_is_stated_at_once() -> None:
    body = without(
        VELOCITY,
        "window",
        aggregation_type="sum",
        severity="hgh",
        group_by="acount_id",
        conditions=[{"field": "amount_cents", "operator": "=", "value": 1}],
        description="{valu}",
    )
    assert sorted(path for path, _ in findings_of(body)) == [
        "aggregation_field",
        "conditions[0].operator",
        "description",
        "group_by",
        "severity",
        "window",
    ]


def test_moves_of_the_life_cycle() -> None:
    legal = {(old, new) for old in STATUSES for new in STATUSES if legal_move(old, new)}  # type: ignore[arg-type]
    assert legal == {
        ("draft", "shadow"),
        ("draft", "active"),
        ("shadow", "active"),
        ("active", "shadow"),
        ("active", "paused"),
        ("paused", "active"),
        ("draft", "retired"),
        ("shadow", "retired"),
        ("active", "retired"),
        ("paused", "retired"),
    }
    assert legal_moves("active") == ("paused", "retired", "shadow")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Lateness(120_000, None)),
        ({"late_policy": "skip"}, Lateness(120_000, 45_000)),
        ({"watermark_delay": 3, "late_policy": "skip"}, Lateness(120_000, 3000)),
        ({"watermark_delay": 300}, Lateness(300_000, None)),
        ({"allowed_lateness": 1}, Lateness(1000, None)),
        ({"time_mode": "processing_time", "late_policy": "skip"}, Lateness(None, None)),
    ],
)
def test_lateness_is_resolved_with_the_defaults(fields: dict[str, Any], expected: Lateness) -> None:
    assert rule(THRESHOLD, **fields).lateness(Defaults()) == expected


def test_one_body_has_one_digest() -> None:
    base = rule(VELOCITY)
    same = [
        rule({**VELOCITY, "status": "shadow", "effective_from": 5}),
        rule({**VELOCITY, "group_by": ["account_id"], "operator": ">=", "severity": "medium", "conditions": []}),
        rule(without(VELOCITY, "window", window_size=1, window_unit="minute")),
        rule({**VELOCITY, "window": "1m"}),
    ]
    assert {each.body_digest() for each in same} == {base.body_digest()}
    other = [
        {"window": "61s"},
        {"version": 2},
        {"description": "x"},
        {"conditions": THRESHOLD["conditions"]},
        {"score": 1},
    ]
    assert len({base.body_digest(), *(rule(VELOCITY, **each).body_digest() for each in other)}) == 6


def test_the_digest_does_not_change_between_releases() -> None:
    # SHA-256 of the canonical JSON, taken with sha256sum.
    canonical = {
        "aggregation_threshold": 10,
        "aggregation_type": "count",
        "group_by": ["account_id"],
        "rule_id": "burst",
        "rule_type": "velocity",
        "source_topic": "payments",
        "version": 1,
        "window": "60000ms",
    }
    assert rule(VELOCITY).canonical() == canonical
    assert json.dumps(canonical, sort_keys=True, separators=(",", ":")) == (
        '{"aggregation_threshold":10,"aggregation_type":"count","group_by":["account_id"],"rule_id":"burst",'
        '"rule_type":"velocity","source_topic":"payments","version":1,"window":"60000ms"}'
    )
    assert rule(VELOCITY).body_digest() == "901959199c8ce0efba883ebe8acbfe2893672f1a888b9f8b024b518f19b84c02"


@given(
    st.sampled_from(STATUSES),
    st.integers(YEAR_1_MS, YEAR_10000_MS - 1) | st.none(),
    st.integers(0, 10**9),
    st.booleans(),
)
def test_a_rule_survives_json_and_pickle(status: str, effective: int | None, delay_ms: int, current: bool) -> None:
    body = {
        **VELOCITY,
        "status": status,
        "effective_from": effective,
        "watermark_delay": f"{delay_ms}ms",
        "include_current": current,
    }
    first = rule(body)
    assert rule(first.to_json()) == first
    assert pickle.loads(pickle.dumps(first)) == first  # noqa: S301 - our own bytes
