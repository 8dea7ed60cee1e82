"""Counts that are kept as things come are those of a naive twin that looks at all of it at the end."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.cases.casekit import HOUR, START, Harness, alert, correction

from crossline.analysis.health.stability import bucket_of
from crossline.basics.times import parse_instant_ms
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.suppressions import store
from crossline.serve.cases.suppressions.store import NewSuppression

DAY = 24 * HOUR
RULES = ("burst", "mule", "travel")
COUNTS = ("rule_days", "rule_hours", "rule_values", "rule_pairs", "rule_labels")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()


def table(path: Path, name: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        found = connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - our own names
    connection.close()
    return sorted(found)


def nonzero(rows: list[tuple[Any, ...]], last: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Cells by their key; those that went back to nothing are none."""
    found = {row[:-last]: tuple(round(each, 6) for each in row[-last:]) for row in rows}
    return {key: values for key, values in found.items() if any(values)}


class Twin:
    """All that was given, and what stands at the end."""

    def __init__(self) -> None:
        self.alerts: dict[str, dict[str, Any]] = {}
        self.retracted: set[str] = set()
        self.verdicts: dict[str, tuple[bool, int]] = {}

    def day(self, each: dict[str, Any]) -> int:
        return parse_instant_ms(each["event_time"]) // DAY

    def kind(self, each: dict[str, Any]) -> str:
        return "shadow" if each["kind"] == "shadow" else "alert" if each.get("emit_to_sink", True) else "feed"

    def amount(self, each: dict[str, Any]) -> float:
        return each["record"]["amount_cents"] / 100 if "record" in each else 0.0

    def days(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found: dict[tuple[Any, ...], list[float]] = {}
        for name, each in self.alerts.items():
            which = (self.day(each), each["rule_id"], each["rule_version"], self.kind(each))
            mine = found.setdefault(which, [0, 0, 0, 0.0])
            mine[0] += 1
            mine[1] += name in self.retracted
            mine[3] += 0.0 if name in self.retracted else self.amount(each)
        return {key: (*values[:3], round(values[3], 6)) for key, values in found.items()}

    def hours(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found = Counter(
            (parse_instant_ms(each["event_time"]) // HOUR, each["rule_id"], self.kind(each))
            for each in self.alerts.values()
        )
        return {key: (value,) for key, value in found.items()}

    def values(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found = Counter(
            (self.day(each), each["rule_id"], each["rule_version"], bucket_of(each["value"]))
            for each in self.alerts.values()
        )
        return {key: (value,) for key, value in found.items()}

    def labels(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found: dict[tuple[Any, ...], list[float]] = {}
        for name, each in self.alerts.items():
            if name in self.retracted or each["record_id"] not in self.verdicts:
                continue
            fraud, at_ms = self.verdicts[each["record_id"]]
            which = (self.day(each), each["rule_id"], each["rule_version"], self.kind(each), at_ms // DAY, int(fraud))
            currency = each["record"]["currency"] if "record" in each else ""
            mine = found.setdefault((*which, currency), [0, 0.0])
            mine[0] += 1
            mine[1] += self.amount(each)
        return {key: (values[0], round(values[1], 6)) for key, values in found.items()}

    def pairs(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found = {}
        for day, one, other in product(range(START // DAY, START // DAY + 4), RULES, RULES):
            mine, its = (
                [each for each in self.alerts.values() if each["rule_id"] == rule and self.day(each) == day]
                for rule in (one, other)
            )
            records = {each["record_id"] for each in mine} & {each["record_id"] for each in its}
            entities = {each["key"]["account_id"] for each in mine} & {each["key"]["account_id"] for each in its}
            if records or entities:
                found[day, one, other] = (len(records), len(entities), 0)
        return found


def drawn_alert(at: random.Random, number: int) -> dict[str, Any]:
    record = at.randrange(12)
    money = {"record": {"amount_cents": at.randrange(1, 9_000), "currency": at.choice(["EUR", "USD"])}}
    return alert(
        f"al{number}",
        START + record % 4 * DAY + record * HOUR,
        account=f"a{at.randrange(4)}",
        rule_id=at.choice(RULES),
        rule_version=at.randrange(1, 3),
        record_id=f"r{record}",
        value=at.choice([1, 2.5, 7, -3, 0]),
        kind=at.choice(["alert", "alert", "shadow"]),
        emit_to_sink=at.random() < 0.8,
        **(money if at.random() < 0.7 else {}),
    )


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_those_of_the_naive_twin(harness: Harness, seed: int) -> None:
    at, twin = random.Random(seed), Twin()
    for number in range(160):
        harness.now_ms = START + 3 * DAY + number * HOUR // 8
        act = at.random()
        if act < 0.55:
            made = drawn_alert(at, number)
            twin.alerts[made["alert_id"]] = made
            harness.take(made, made)  # a redelivery changes nothing
        elif act < 0.75 and twin.alerts:
            of = at.choice(list(twin.alerts.values()))
            gone = of["alert_id"] not in twin.retracted
            body = correction(of, "retracted" if gone else "reinstated")
            body["kind"] = "shadow" if of["kind"] == "shadow" else "correction"
            harness.take(body, body)
            (twin.retracted.add if gone else twin.retracted.discard)(of["alert_id"])
        else:
            record, fraud = f"r{at.randrange(12)}", at.random() < 0.5
            harness.cases.put_label("payments", record, fraud, who="ines")
            twin.verdicts[record] = (fraud, harness.now_ms)
    assert nonzero(table(harness.path, "rule_days"), 4) == twin.days()
    assert nonzero(table(harness.path, "rule_hours"), 1) == twin.hours()
    assert nonzero(table(harness.path, "rule_values"), 1) == twin.values()
    assert nonzero(table(harness.path, "rule_labels"), 2) == twin.labels()
    assert nonzero(table(harness.path, "rule_pairs"), 3) == twin.pairs()


def test_a_label_that_is_taken_back_counts_no_more(harness: Harness) -> None:
    harness.take(alert("one", record_id="r1"))
    harness.service.act("C-1", CaseAction("resolve", label="fraud"), "ines")
    assert [row[5:] for row in table(harness.path, "rule_labels")] == [(1, "", 1, 0.0)]
    harness.service.act("C-1", CaseAction("undo"), "ines")
    assert nonzero(table(harness.path, "rule_labels"), 2) == {}


def test_who_leads_a_decision_and_what_is_hidden_are_counted(harness: Harness) -> None:
    harness.take(alert("one", record_id="r1"), alert("two", record_id="r1", rule_id="mule"))
    body = {"kind": "decision", "stream": "payments", "record_id": "r1", "decision": "block"}
    first = {**body, "reasons": [{"rule_id": "mule"}, {"rule_id": "burst"}]}
    harness.take(first, first, {**body, "kind": "revision", "reasons": [{"rule_id": "burst"}]})
    day = START // DAY
    led = {row[1:3]: row[5] for row in table(harness.path, "rule_pairs")}
    assert led == {("burst", "mule"): 1, ("mule", "burst"): 0, ("burst", "burst"): 0, ("mule", "mule"): 0}
    until = harness.now_ms + HOUR
    store.make(harness.cases.file, NewSuppression(until, "known", ["burst"]), "ines", harness.now_ms)
    harness.take(alert("three", record_id="r3"))
    assert table(harness.path, "rule_days") == [
        (day, "burst", 1, "alert", 2, 0, 1, 0.0),
        (day, "mule", 1, "alert", 1, 0, 0, 0.0),
    ]


def test_a_file_of_version_2_is_counted_once_it_is_opened(tmp_path: Path) -> None:
    at, harness = random.Random(4), Harness(tmp_path)
    for number in range(80):
        harness.take({**drawn_alert(at, number), "kind": "alert", "emit_to_sink": True})
        harness.cases.put_label("payments", f"r{at.randrange(12)}", at.random() < 0.5, who="ines")
    before = {name: table(harness.path, name) for name in COUNTS}
    harness.close()
    with sqlite3.connect(harness.path) as connection:
        for name in (*COUNTS, "rule_entities", "asides", "rule_cooled", "cooled_records"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DROP INDEX alerts_by_record")
        connection.execute("ALTER TABLE alerts DROP COLUMN led")
        for name in ("hidden", "hidden_ms", "frauds"):  # of version 4
            connection.execute(f"ALTER TABLE suppressions DROP COLUMN {name}")
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    Harness(tmp_path).close()
    sizes = {"rule_days": 4, "rule_hours": 1, "rule_pairs": 3, "rule_labels": 2}
    for name, last in sizes.items():
        assert nonzero(table(harness.path, name), last) == nonzero(before[name], last), name
    assert table(harness.path, "rule_values") == []  # figures of alerts that came before are not known


def test_what_is_old_goes(harness: Harness) -> None:
    harness.take(alert("old"))
    harness.now_ms = START + 11 * DAY
    harness.take(alert("new", START + 11 * DAY))
    assert {row[0] for row in table(harness.path, "rule_entities")} == {START // DAY + 11}
    assert len(table(harness.path, "rule_days")) == 2
