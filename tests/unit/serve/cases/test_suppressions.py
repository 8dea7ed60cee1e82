"""Suppressions: what they hide, until when, and the fraud that this hid."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.cases.casekit import HOUR, START, Harness, alert

from crossline.basics.times import instant_text
from crossline.serve.cases import labels
from crossline.serve.cases.suppressions import store
from crossline.serve.cases.suppressions.conditions import SuppressionCondition
from crossline.serve.cases.suppressions.store import NewSuppression
from crossline.serve.cases.values import NoSuchCaseError, NotTakenError


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()


def suppress(harness: Harness, **more: Any) -> dict[str, Any]:
    new = NewSuppression(**{"until_ms": START + HOUR, "reason": "a load test", **more})
    return store.make(harness.cases.file, new, "ada", harness.now_ms)


def shown(harness: Harness) -> list[str]:
    return [each["alert_id"] for each in harness.cases.file.rows("SELECT alert_id FROM case_alerts ORDER BY alert_id")]


@pytest.mark.parametrize(
    ("wanted", "visible"),
    [
        ({"rules": ["burst"]}, ["x3"]),
        ({"rules": ["burst", "travel"]}, []),
        ({"key": {"account_id": "a2"}}, ["x1", "x3"]),
        ({"rules": ["travel"], "key": {"account_id": "a1"}}, ["x1", "x2"]),
        ({"conditions": [SuppressionCondition("value", ">=", 7)]}, ["x2"]),
        ({"conditions": [SuppressionCondition("record.shop", "in", ["s1", "s2"])]}, ["x1", "x3"]),
        (
            {"conditions": [SuppressionCondition("record.shop", "!=", "s9"), SuppressionCondition("value", "<", 7)]},
            ["x1", "x3"],
        ),
        ({"conditions": [SuppressionCondition("value", "<", "text")]}, ["x1", "x2", "x3"]),
    ],
    ids=str,
)
def test_what_is_hidden(harness: Harness, wanted: dict[str, Any], visible: list[str]) -> None:
    suppress(harness, **wanted)
    harness.take(alert("x1"), alert("x2", account="a2", value=3, record={"shop": "s2"}), alert("x3", rule_id="travel"))
    assert shown(harness) == visible
    (body,) = store.listed(harness.cases.file, START, None, 10)
    assert body["hidden_count"] == 3 - len(visible)


def test_it_ends_by_itself_or_by_hand(harness: Harness) -> None:
    made = suppress(harness, rules=["burst"])
    harness.now_ms = START + HOUR
    harness.take(alert("x1"))
    assert shown(harness) == ["x1"]
    harness.now_ms = START
    harness.take(alert("x2"))
    assert shown(harness) == ["x1"]
    ended = store.end(harness.cases.file, made["suppression_id"], 1, "bob", START)
    assert (ended["in_force"], ended["ended_by"], ended["version"]) == (False, "bob", 2)
    harness.take(alert("x3"), alert("x2"))
    assert shown(harness) == ["x1", "x3"], "what was hidden stays so"
    with pytest.raises(NotTakenError, match="has ended"):
        store.end(harness.cases.file, made["suppression_id"], 2, "bob", START)


def test_the_fraud_that_it_hid_shows_once_it_is_labelled(harness: Harness) -> None:
    number = suppress(harness, rules=["burst"])["suppression_id"]
    harness.take(alert("x1"), alert("x2"), alert("x3", record_id="r-x1"))
    assert store.one(harness.cases.file, number, START)["fraud_count"] == 0
    harness.cases.put_label("payments", "r-x1", True, who="ada")
    harness.cases.put_label("payments", "r-x2", False, who="ada")
    body = store.one(harness.cases.file, number, START)
    assert (body["hidden_count"], body["fraud_count"]) == (3, 1)
    assert [each["alert_id"] for each in body["frauds"]] == ["x3", "x1"]


def counted(harness: Harness) -> list[tuple[Any, ...]]:
    names = ("suppression_id", "hidden_count", "hidden_last_at", "fraud_count")
    return [tuple(each[name] for name in names) for each in store.listed(harness.cases.file, START, None, 9)]


def counted_naively(harness: Harness) -> list[tuple[Any, ...]]:
    """By all alerts and labels, as they stand in their tables."""
    (file, found) = (harness.cases.file, [])
    frauds = {(each.stream, each.record_id) for each in harness.cases.labels() if each.is_fraud}
    for row in file.rows("SELECT number FROM suppressions ORDER BY number DESC"):
        mine = file.rows("SELECT stream, record_id, event_ms FROM alerts WHERE suppressed_by = ?", (row["number"],))
        records = {(each["stream"], each["record_id"]) for each in mine}
        last = max((each["event_ms"] for each in mine), default=None)
        text = None if last is None else instant_text(last)
        found.append((row["number"], len(mine), text, len(records & frauds)))
    return found


def test_what_is_counted_is_what_the_tables_say(harness: Harness) -> None:
    at = random.Random(4)
    suppress(harness, rules=["burst"])
    suppress(harness, rules=["travel"])
    labelled: list[Any] = []
    for number in range(120):
        record = f"r{at.randrange(12)}"
        doing = at.random()
        if doing < 0.5:
            rule = at.choice(("burst", "travel", "other"))
            harness.take(alert(f"x{number}", START + at.randrange(HOUR), record_id=record, rule_id=rule))
        elif doing < 0.9 or not labelled:
            before = harness.cases.label("payments", record)
            labelled.append((harness.cases.put_label("payments", record, at.random() < 0.5, who="ada"), before))
        else:
            given, before = labelled.pop()
            with harness.cases.file.transaction():
                labels.withdraw(harness.cases.file, given, before, "bob", START)
        assert counted(harness) == counted_naively(harness)
    assert min(each[3] for each in counted(harness)) > 0


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"rules": ["burst"], "reason": ""},
        {"rules": ["burst"], "until_ms": START},
        {"rules": ["burst"], "until_ms": START + 400 * 24 * HOUR},
        {"rules": ["x"] * 101},
        {"conditions": [SuppressionCondition("value", "~", 1)]},
        {"conditions": [SuppressionCondition("value", "in", 1)]},
        {"conditions": [SuppressionCondition("value", "==", [1])]},
    ],
    ids=str,
)
def test_what_is_no_suppression(harness: Harness, wanted: dict[str, Any]) -> None:
    with pytest.raises(NotTakenError):
        suppress(harness, **wanted)
    with pytest.raises(NoSuchCaseError):
        store.one(harness.cases.file, 1, START)
