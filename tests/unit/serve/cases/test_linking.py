"""Alerts become cases: held against a naive twin, over batch cuts, replays, kills, merges, detaches and resolving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.serve.cases.casekit import HOUR, SETTINGS, START, Harness, alert, correction, decision

from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.intake.batches import IntakePosition
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.values import NoSuchCaseError, NotTakenError


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()


def alerts_by_case(harness: Harness) -> dict[str, list[str]]:
    """The ids of the alerts of each case that has some, sorted."""
    found: dict[str, list[str]] = {}
    query = "SELECT seq, alert_id FROM cases JOIN case_alerts ON case_seq = seq ORDER BY seq, alert_id"
    for each in harness.cases.file.rows(query):
        found.setdefault(f"C-{each['seq']}", []).append(each["alert_id"])
    return found


def test_alerts_of_one_entity_are_one_case_within_a_time(harness: Harness) -> None:
    harness.take(alert("x1"), alert("x2", START + HOUR), alert("y1", account="a2"), alert("x3", START + 26 * HOUR))
    assert alerts_by_case(harness) == {"C-1": ["x1", "x2"], "C-2": ["y1"], "C-3": ["x3"]}
    case = harness.service.case("C-1")
    assert (case["sentence"], case["status"], case["version"]) == ("a1 made a burst (x2)", "open", 2)
    assert (case["first_at"], case["last_at"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T01:00:00.000Z")
    assert case["rules"] == [{"rule_id": "burst", "version": 1, "count": 2}]
    assert case["entities"] == [{"field": "account_id", "value": "a1"}]
    assert case["money"] is None
    assert case["key"] == {"account_id": "a1"}


def test_a_card_that_is_shared_links_accounts(harness: Harness) -> None:
    record = {"card_hash": "h1", "amount_cents": 15_320, "currency": "EUR"}
    harness.take(alert("x1", record=record), alert("y1", account="a2", record=record), alert("z1", account="a3"))
    assert alerts_by_case(harness) == {"C-1": ["x1", "y1"], "C-2": ["z1"]}
    case = harness.service.case("C-1")
    assert case["money"] == [{"currency": "EUR", "amount": "306.40"}]
    assert case["entities"] == [{"field": "account_id", "value": "a1"}, {"field": "account_id", "value": "a2"}]


def test_amounts_in_minor_units_have_the_digits_of_their_currency(tmp_path: Path) -> None:
    money = {"field": "minor", "currency": "currency", "decimals": "currency"}
    made = Harness(tmp_path, SETTINGS.model_validate({"money": money}))
    made.take(
        *(
            alert(name, record={"minor": 98_000, "currency": name})
            for name in ("JPY", "EUR", "KWD", "none of these codes")
        )
    )
    found = {each["currency"]: each["amount"] for each in made.service.case("C-1")["money"]}
    assert found == {"JPY": "98000", "EUR": "980.00", "KWD": "98.000", "none of these codes": "980.00"}
    made.close()


def test_between_two_cases_the_older_takes_it_and_the_other_is_linked(harness: Harness) -> None:
    harness.take(alert("y1", account="a2"), alert("x1"))
    harness.take(
        alert("z1", account="a1", record={"card_hash": "h"}), alert("w1", account="a2", record={"card_hash": "h"})
    )
    assert alerts_by_case(harness) == {"C-1": ["w1", "y1"], "C-2": ["x1", "z1"]}
    (linked,) = harness.service.linked("C-1")
    assert (linked["number"], linked["shared"]) == ("C-2", [{"field": "card_hash", "value": "h"}])


def test_shadow_alerts_and_those_that_feed_other_rules_make_no_cases(harness: Harness) -> None:
    harness.take(alert("x1", kind="shadow"), alert("x2", emit_to_sink=False))
    assert alerts_by_case(harness) == {}


def test_money_is_of_distinct_records_by_currency(harness: Harness) -> None:
    def with_money(name: str, cents: Any, currency: str, record: str) -> dict[str, Any]:
        return alert(name, record={"amount_cents": cents, "currency": currency}, record_id=record)

    harness.take(
        with_money("m1", 1_005, "EUR", "r1"),
        with_money("m2", 1_005, "EUR", "r1"),
        with_money("m3", 2, "EUR", "r2"),
        with_money("m4", 100, "USD", "r3"),
        with_money("m5", None, "USD", "r4"),
    )
    case = harness.service.case("C-1")
    assert case["money"] == [{"currency": "EUR", "amount": "10.07"}, {"currency": "USD", "amount": "1.00"}]
    assert case["money_unknown"] == 1


def test_retracted_alerts_are_marked_and_come_back(harness: Harness) -> None:
    first, second = alert("x1", severity="critical"), alert("x2", START + 1)
    harness.take(first, second)
    harness.take(correction(first, "retracted"))
    case = harness.service.case("C-1")
    assert (case["severity"], case["sentence"], case["retracted"]) == ("medium", second["message"], False)
    assert [each["retracted"] for each in case["alerts"]] == [True, False]
    harness.take(correction(second, "retracted"))
    assert harness.service.case("C-1")["retracted"] is True
    harness.take(correction(first, "reinstated", message="again"))
    case = harness.service.case("C-1")
    assert (case["severity"], case["sentence"], case["retracted_count"]) == ("critical", "again", 1)
    harness.take(correction(alert("unknown"), "retracted"))
    assert len(alerts_by_case(harness)) == 1


def test_the_gravest_decision_and_whether_it_was_revised(harness: Harness) -> None:
    harness.take(alert("x1"), decision("r-x1", "block"), decision("r-other", "block"))
    assert harness.service.case("C-1")["decision"] == {"gravest": "block", "standing": "block", "revised": False}
    harness.take(decision("r-x1", "review", "revision"))
    assert harness.service.case("C-1")["decision"] == {"gravest": "block", "standing": "review", "revised": True}


def test_a_resolved_case_is_reopened_for_a_while(harness: Harness) -> None:
    harness.take(alert("x1"))
    harness.service.act("C-1", CaseAction("assign"), "ada")
    harness.service.act("C-1", CaseAction("resolve", label="good"), "ada")
    harness.take(alert("x2", START + 4 * HOUR))
    case = harness.service.case("C-1")
    assert (case["status"], case["assignee"], case["label"], case["resolved_at"]) == ("acknowledged", "ada", None, None)
    harness.service.act("C-1", CaseAction("resolve"), "ada")
    harness.take(alert("x3", START + 8 * HOUR + 1))
    assert alerts_by_case(harness) == {"C-1": ["x1", "x2"], "C-2": ["x3"]}


def test_a_case_takes_a_thousand_alerts(harness: Harness) -> None:
    harness.take(*(alert(f"x{number:04}", START + number) for number in range(1_001)))
    assert {name: len(each) for name, each in alerts_by_case(harness).items()} == {"C-1": 1_000, "C-2": 1}


class Twin:
    """Linking by its definition: cases are lists of alerts, and each is examined."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []
        self.known: set[str] = set()

    def take(self, body: dict[str, Any], at_ms: int) -> None:
        if body["alert_id"] in self.known or body["kind"] != "alert":
            return
        self.known.add(body["alert_id"])
        values = {("account_id", body["key"]["account_id"])}
        values |= {(name, value) for name, value in body.get("record", {}).items() if name in SETTINGS.link}

        def near(case: dict[str, Any]) -> bool:
            for each in values:
                times = [at for _, at, has in case["alerts"] if each in has]
                if times and min(times) - SETTINGS.within <= at_ms <= max(times) + SETTINGS.within:
                    return case["state"] != "merged"
            return False

        found = [case for case in self.cases if near(case)]
        live = [case for case in found if case["state"] != "resolved"]
        done = [
            c for c in found if c["state"] == "resolved" and at_ms <= max(a[1] for a in c["alerts"]) + SETTINGS.reopen
        ]
        if not live and not done:
            self.cases.append({"state": "open", "alerts": []})
        case = live[0] if live else done[-1] if done else self.cases[-1]
        case["state"] = "open"
        case["alerts"].append((body["alert_id"], at_ms, values))

    def alerts_by_case(self) -> dict[str, list[str]]:
        named = {f"C-{number}": sorted(each[0] for each in case["alerts"]) for number, case in enumerate(self.cases, 1)}
        return {name: each for name, each in named.items() if each}


ALERTS = st.tuples(
    st.just("alert"),
    st.integers(0, 40),
    st.sampled_from(["a1", "a2", "a3"]),
    st.sampled_from([{}, {"card_hash": "h1"}, {"card_hash": "h2", "device_id": "d1"}, {"device_id": "d1"}]),
    st.integers(0, 60),
    st.booleans(),
)
ACTS = st.tuples(
    st.sampled_from(["resolve", "merge", "detach", "snooze", "kill", "replay"]), st.integers(1, 6), st.integers(1, 6)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(ALERTS, ALERTS, ALERTS, ACTS), max_size=30), st.integers(1, 5))
def test_cases_are_what_a_naive_twin_says(tmp_path_factory: pytest.TempPathFactory, steps: list[Any], cut: int) -> None:
    folder = tmp_path_factory.mktemp("cases")
    harness, twin, batch, past = Harness(folder), Twin(), list[dict[str, Any]](), list[dict[str, Any]]()

    def flush() -> None:
        harness.take(*batch)
        past.extend(batch)
        batch.clear()

    for step in steps:
        if step[0] == "alert":
            _, name, account, record, hours, shadow = step
            at_ms = START + hours * HOUR
            found = alert(
                f"x{name}", at_ms, account, record=record, kind="shadow" if shadow and hours % 7 == 0 else "alert"
            )
            batch.append(found)
            twin.take(found, at_ms)
            if len(batch) >= cut:
                flush()
            continue
        flush()
        act, first, second = step
        if act == "kill":
            harness.close()
            harness = Harness(folder)
        elif act == "replay":
            harness.take(*past)
        elif first <= len(twin.cases):
            done(harness, twin, act, first, second)
    flush()
    assert alerts_by_case(harness) == twin.alerts_by_case()
    states = {each["number"]: each["status"] for each in harness.service.page(QueueFilter(), "ada", limit=500).items}
    assert all(states.get(f"C-{n}") == c["state"] for n, c in enumerate(twin.cases, 1) if c["state"] != "merged")
    harness.close()


def done(harness: Harness, twin: Twin, act: str, first: int, second: int) -> None:
    """An act on case ``first`` of the store and of the twin, with ``second`` where it is a merge."""
    case = twin.cases[first - 1]
    other = twin.cases[second - 1] if second <= len(twin.cases) else None
    names = sorted(each[0] for each in case["alerts"])
    wanted = {
        "resolve": CaseAction("resolve"),
        "snooze": CaseAction("snooze"),
        "merge": CaseAction("merge", case_ids=(f"C-{second}",)),
        "detach": CaseAction("detach", alert_id=names[0] if names else "none"),
    }[act]
    live = case["state"] not in {"resolved", "merged"}
    fits = {
        "resolve": live,
        "snooze": live,
        "merge": live and other is not None and other is not case and other["state"] != "merged",
        "detach": live and len(names) > 1,
    }[act]
    if not fits:
        with pytest.raises((NotTakenError, NoSuchCaseError)):
            harness.service.act(f"C-{first}", wanted, "ada")
        return
    harness.service.act(f"C-{first}", wanted, "ada")
    if act in {"resolve", "snooze"}:
        case["state"] = "resolved" if act == "resolve" else "snoozed"
    elif act == "merge":
        assert other is not None
        case["alerts"] += other["alerts"]
        other["alerts"], other["state"] = [], "merged"
    else:
        moved = [each for each in case["alerts"] if each[0] == names[0]]
        case["alerts"] = [each for each in case["alerts"] if each[0] != names[0]]
        twin.cases.append({"state": "open", "alerts": moved})


def test_what_was_taken_and_how_far_is_one_transaction(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.take(alert("x1"), mark=IntakePosition(4, 1, "p"))
    with pytest.raises(KeyError):
        harness.intake.take(
            [("alerts", orjson.dumps(alert("x2"))), ("alerts", b'{"kind": "alert"}')], IntakePosition(5, 2, "p")
        )
    assert alerts_by_case(harness) == {"C-1": ["x1"]}
    harness.close()
    again = Harness(tmp_path)
    assert again.intake.mark() == IntakePosition(4, 1, "p")
    again.close()
