"""``absence``: what waits, what answers it, when it is known that nothing came, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from .rulekit import findings_of, rule
from .scenes import alerts
from .stream_joins import refused

UNPAID: dict[str, Any] = {
    "rule_type": "absence",
    "group_by": "card",
    "after": [{"field": "status", "operator": "==", "value": "ordered"}],
    "expect": [{"field": "status", "operator": "==", "value": "paid"}],
    "within": "10s",
    "allowed_lateness": "5s",
    "watermark_delay": "2s",
}


def scene(text: str, **fields: Any) -> list[dict[str, Any]]:
    """``"o0 p5 x9"``: records of one card: o ordered, p paid, x is something else; at a second."""
    body = {"o": "ordered", "p": "paid", "x": "seen"}
    return [{"status": body[word[0]], "s": float(word[1:]), **fields} for word in text.split()]


def alerted_ids(rule: dict[str, Any], records: list[dict[str, Any]], batches: int = 1) -> list[str]:
    return [alert["record_id"] for alert in alerts(rule, records, batches)]


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_an_unpaid_order(batches: int) -> None:
    (alert,) = alerts(UNPAID, scene("o0 x3 x15 x15.001"), batches)
    assert (alert["record_id"], alert["key"], alert["value"]) == ("n0", {"card": "c1"}, None)
    assert alert["evidence"] == {
        "count": 1,
        "record_ids": ["n0"],
        "deadline": "2026-01-01T00:00:10.000Z",
        "known_at": "2026-01-01T00:00:15.001Z",
    }
    assert (alert["window_start"], alert["window_end"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:10.000Z")
    assert alert["message"] == "status == ordered, and then no status == paid by card c1 within 10 s"


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("o0 x15", []),
        ("o0 x15.001", ["n0"]),
        ("o0 p0 x20", []),
        ("p0 o0 x20", ["n1"]),
        ("o0 p10 x20", []),
        ("o0 p10.001 x20", ["n0"]),
        ("o0 x14 p9.5 x20", []),
        ("o0 x15.001 p10.001 x20", ["n0"]),
        ("o0 o1 p10.5 x20", ["n0"]),
        ("o0 o1 p5 o6 x30", ["n3"]),
        ("x4 p3 o1 x30", []),
        ("x8 o2.999 x30", []),
        ("x8 o3 x30", ["n1"]),
        ("x8 o3 p9 x30", []),
    ],
)
def test_what_is_answered(text: str, expected: list[str], batches: int) -> None:
    assert alerted_ids(UNPAID, scene(text), batches) == expected


STREAM_RULE: dict[str, Any] = {
    "rule_id": "unused",
    "version": 1,
    "rule_type": "absence",
    "source_topic": "payments",
    "group_by": "account_id",
    "after": [{"field": "status", "operator": "==", "value": "approved"}],
    "expect": {"source_topic": "events.raw", "group_by": "user_id"},
    "within": "10m",
}


def test_what_is_waited_for_may_be_of_another_stream() -> None:
    read = rule(STREAM_RULE)
    assert read.reading.name == "payments+events.raw(account_id=user_id)"
    assert read.canonical()["expect"] == {"source_topic": "events.raw", "group_by": ["user_id"]}
    message = "".join(text or "{}" for kind, text in read.default_sentence(None).parts if kind == "text")
    assert message.startswith("status == approved, and then no record of events.raw")


def test_plain_conditions_are_written_as_they_were() -> None:
    """Else a rule that was published by an earlier version would have another body."""
    plain = [{"field": "status", "operator": "==", "value": "settled"}]
    assert rule({**STREAM_RULE, "expect": plain}).canonical()["expect"] == plain
    assert rule({**STREAM_RULE, "expect": {"all": plain}}).canonical()["expect"] == {"all": plain}


@pytest.mark.parametrize(
    ("expect", "path", "words"),
    [
        ({}, "expect", "conditions"),
        ({"source_topic": "event.raw"}, "expect.source_topic", "events.raw"),
        ({"source_topic": "events.raw"}, "expect.group_by", "account_id"),
        ({"source_topic": "events.raw", "group_by": "value"}, "expect.group_by", "string"),
        ({"source_topic": "events.raw", "group_by": ["user_id", "type"]}, "expect.group_by", "as many fields"),
        ({"source_topic": "events.raw", "key": "user_id"}, "expect.key", ""),
        ({"group_by": "merchant_id"}, "expect.group_by", "string"),
        ([{"field": "stat", "operator": "==", "value": "x"}], "expect[0].field", "status"),
        (
            {"source_topic": "events.raw", "group_by": "user_id", "conditions": [{"field": "x", "operator": "exists"}]},
            "expect.conditions[0].field",
            "events.raw",
        ),
    ],
)
def test_what_cannot_be_waited_for(expect: Any, path: str, words: str) -> None:
    found = findings_of({**STREAM_RULE, "expect": expect})
    assert any(each.startswith(path) and words in text for each, text in found), found


def test_what_waits_for_another_stream_is_reported_once_too() -> None:
    assert findings_of({**STREAM_RULE, "late_policy": "reevaluate"}) == []


def test_it_judges_again_what_is_of_a_stream_and_no_hits() -> None:
    often = {"rule_id": "often", "rule_type": "velocity", "source_topic": "payments", "group_by": "card"}
    often |= {"aggregation_type": "count", "aggregation_threshold": 2, "window": "1m"}
    asked = {part: [{"field": "amount", "operator": "==", "value": 1}] for part in ("after", "expect")}
    absence = {**UNPAID, **asked, "rule_id": "quiet", "late_policy": "reevaluate"}
    assert refused({**absence, "source_topic": "payments"}) == []
    found = refused({**absence, "source_topic": "rule:often"}, often)
    assert [(path, "an absence reads hits as they were emitted first" in text) for path, text in found] == [
        ("late_policy", True)
    ]
