"""The queue: filters, orders, pages, counts and one search, held against plain lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.serve.cases.casekit import HOUR, SETTINGS, START, Harness, alert, decision

from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.queue import pages, views
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.values import LinkedAlert, NoSuchCaseError, NotTakenError

SEVERITIES = ["info", "low", "medium", "high", "critical"]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()


def filled(harness: Harness) -> None:
    """Cases 1 to 9: severities in turns, money 0 to 8, two streams, two rules, an alert each hour."""
    for number in range(9):
        record = {"amount_cents": number * 100, "currency": "EUR"} if number else {}
        found = alert(
            f"n{number}",
            START + number * HOUR,
            f"acc{number}",
            severity=SEVERITIES[number % 5],
            stream="payments" if number % 2 else "logins",
            rule_id="burst" if number % 3 else "travel",
            record=record,
        )
        harness.take(found)


def numbers(harness: Harness, wanted: QueueFilter, sort: str = "newest", who: str = "ada") -> list[int]:
    return [int(each["number"][2:]) for each in harness.service.page(wanted, who, sort, limit=500).items]


def test_filters_and_orders(harness: Harness) -> None:
    filled(harness)
    harness.take(decision("r-n1", "block"))
    assert numbers(harness, QueueFilter()) == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert numbers(harness, QueueFilter(), "money") == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert numbers(harness, QueueFilter(), "severity") == [5, 9, 4, 8, 3, 7, 2, 6, 1]
    assert numbers(harness, QueueFilter(severity="high")) == [9, 5, 4]
    assert numbers(harness, QueueFilter(stream="logins", rule_id="travel")) == [7, 1]
    assert numbers(harness, QueueFilter(decision="block")) == [2]
    assert numbers(harness, QueueFilter(money=6.0)) == [9, 8, 7]
    assert numbers(harness, QueueFilter(from_ms=START + HOUR, to_ms=START + 3 * HOUR)) == [3, 2]
    assert numbers(harness, QueueFilter(key={"account_id": "acc4"})) == [5]
    assert numbers(harness, QueueFilter(from_ms=-(10**30), to_ms=10**30)) == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    for wrong in (QueueFilter(view="x"), QueueFilter(severity="x"), QueueFilter(decision="x")):  # type: ignore[arg-type]
        with pytest.raises(NotTakenError):
            harness.service.page(wrong, "ada")


def test_views_and_their_counts(harness: Harness) -> None:
    filled(harness)
    for case_id, act in (
        ("C-1", CaseAction("assign")),
        ("C-2", CaseAction("assign", to="bob")),
        ("C-3", CaseAction("snooze")),
        ("C-4", CaseAction("escalate", to="ada")),
        ("C-5", CaseAction("resolve")),
        ("C-6", CaseAction("merge", case_ids=("C-7",))),
    ):
        harness.service.act(case_id, act, "ada")
    found = {name: numbers(harness, QueueFilter(view=name)) for name in harness.service.counts("ada")}  # type: ignore[arg-type]
    assert found == {
        "open": [9, 8, 6, 2, 1],
        "unassigned": [9, 8, 6],
        "mine": [4, 1],
        "snoozed": [3],
        "escalated": [4],
        "resolved": [5],
        "all": [9, 8, 6, 5, 4, 3, 2, 1],
    }
    assert {name: each["count"] for name, each in harness.service.counts("ada").items()} == {
        name: len(each) for name, each in found.items()
    }
    assert numbers(harness, QueueFilter(status="merged", view="all")) == []


def test_counts_above_a_bound_say_so(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(harness)
    monkeypatch.setattr(pages, "COUNTED_MAX", 8)
    assert harness.service.counts("ada")["all"] == {"count": 8, "more": True}
    monkeypatch.setattr(pages, "COUNTED_MAX", 9)
    assert harness.service.counts("ada")["all"] == {"count": 9, "more": False}


def test_one_search_over_all_that_is_known(harness: Harness) -> None:
    harness.take(
        alert("aa-77", account="b0005534", message="Überweisung to a mule", record={"card_hash": "4929deadbeef"})
    )
    harness.take(alert("x2", account="other", message="nothing of note"))
    harness.service.act("C-2", CaseAction("note", text='called the customer, it\'s "fine"'), "ada")
    harness.cases.create_case(
        "Ring of three", [LinkedAlert("z9", "payments", "t0000007")], who="ada", about={"zone": "north"}
    )

    def found(text: str) -> list[int]:
        return numbers(harness, QueueFilter(q=text))

    assert found("MULE") == found("uberweisung mul") == found("b0005534") == found("4929dead") == [1]
    assert found("r-aa-77") == found("aa-77") == [1]
    assert found("customer called") == found('"fine"') == [2]
    assert found("ring") == found("t0000007") == found("north") == [3]
    assert found("C-2") == found("c-2 ") == [2]
    assert found("burst") == [2, 1], "the rule"
    assert found("mule called") == found("C-99") == found("'; DROP TABLE cases; --") == found("C-" + "9" * 40) == []
    assert found(")(*:^") == []
    assert found("  ") == [3, 2, 1]
    harness.service.act("C-1", CaseAction("merge", case_ids=("C-2",)), "ada")
    assert found("nothing of note") == [1], "alerts are found where they are now"


def test_pages_neither_repeat_nor_skip_while_cases_change(harness: Harness) -> None:
    filled(harness)
    first = harness.service.page(QueueFilter(), "ada", "newest", None, 4)
    harness.take(alert("late", START + 20 * HOUR, "acc0"), alert("fresh", START + 21 * HOUR, "new"))
    harness.service.act("C-4", CaseAction("resolve"), "ada")
    second = harness.service.page(QueueFilter(), "ada", "newest", first.place, 4)
    third = harness.service.page(QueueFilter(), "ada", "newest", second.place, 4)
    found = [int(each["number"][2:]) for page in (first, second, third) for each in page.items]
    assert found == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert (first.total, third.place) == (9, None)


@pytest.mark.parametrize("sort", ["newest", "money", "severity", "opened"])
def test_a_page_goes_on_after_a_restart(harness: Harness, sort: str) -> None:
    filled(harness)
    whole = numbers(harness, QueueFilter(), sort)
    first = harness.service.page(QueueFilter(), "ada", sort, None, 4)
    other = Harness(harness.path.parents[1])
    rest = other.service.page(QueueFilter(), "ada", sort, first.place, 9)
    assert [int(each["number"][2:]) for each in [*first.items, *rest.items]] == whole
    other.close()


@pytest.mark.parametrize("sort", ["newest", "money", "severity", "opened"])
def test_a_list_goes_on_behind_what_is_frozen_of_it(
    harness: Harness, sort: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(harness)
    whole = numbers(harness, QueueFilter(), sort)
    monkeypatch.setattr(pages, "FROZEN_MAX", 4)
    found, place, sizes = list[int](), None, list[int]()
    while True:
        page = harness.service.page(QueueFilter(), "ada", sort, place, 3)
        found += [int(each["number"][2:]) for each in page.items]
        sizes.append(len(page.items))
        assert page.total == 9
        place = page.place
        if place is None:
            break
    assert found == whole
    assert sizes == [3, 1, 3, 1, 1]


def test_what_another_process_changed_is_seen(harness: Harness) -> None:
    filled(harness)
    assert numbers(harness, QueueFilter(view="resolved")) == []
    other = Harness(harness.path.parents[1])
    other.service.act("C-3", CaseAction("resolve"), "bob")
    other.take(alert("more", START + 30 * HOUR, "later"))
    other.close()
    assert numbers(harness, QueueFilter(view="resolved")) == [3]
    assert numbers(harness, QueueFilter())[0] == 10


def test_similar_cases_are_resolved_ones_of_a_same_rule(harness: Harness) -> None:
    filled(harness)
    harness.take(alert("k", key={"card": "c1"}, account="", rule_id="travel"))
    for number in (7, 1, 2, 10):
        harness.now_ms += 1
        harness.service.act(f"C-{number}", CaseAction("resolve", label="good"), "ada")
    assert [each["number"] for each in harness.service.similar("C-4")] == ["C-1", "C-7"]
    assert [each["number"] for each in harness.service.similar("C-4", 1)] == ["C-1"]
    assert [each["number"] for each in harness.service.similar("C-1")] == ["C-7"]


def test_saved_views(harness: Harness) -> None:
    file = harness.cases.file
    views.put(file, "ada", "mules", {"rule_id": "burst"}, default=True)
    views.put(file, "ada", "all", {}, default=True)
    views.put(file, "bob", "mules", {}, default=False)
    assert views.views(file, "ada") == [
        {"name": "all", "query": {}, "default": True},
        {"name": "mules", "query": {"rule_id": "burst"}, "default": False},
    ]
    views.remove(file, "ada", "all")
    with pytest.raises(NoSuchCaseError):
        views.remove(file, "ada", "all")
    assert [each["name"] for each in views.views(file, "bob")] == ["mules"]


CASE = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 5), st.booleans(), st.booleans())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(CASE, max_size=14),
    st.sampled_from([None, *SEVERITIES]),
    st.sampled_from([None, 0.0, 2.0]),
    st.sampled_from(["open", "unassigned", "resolved", "all"]),
    st.sampled_from(["newest", "money", "severity"]),
    st.integers(1, 5),
)
def test_a_queue_is_what_a_plain_list_says(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[Any],
    severity: str | None,
    money: float | None,
    view: Any,
    sort: str,
    limit: int,
) -> None:
    harness = Harness(tmp_path_factory.mktemp("queue"), SETTINGS)
    plain = []
    for number, (grave, euros, hour, assigned, resolved) in enumerate(made, 1):
        record = {"amount_cents": euros * 100, "currency": "EUR"} if euros else {}
        harness.take(
            alert(f"n{number}", START + hour * HOUR, f"acc{number}", severity=SEVERITIES[grave], record=record)
        )
        if assigned:
            harness.service.act(f"C-{number}", CaseAction("assign"), "ada")
        if resolved:
            harness.service.act(f"C-{number}", CaseAction("resolve"), "ada")
        seen = {"open": not resolved, "unassigned": not resolved and not assigned, "resolved": resolved, "all": True}[
            view
        ]
        enough = money is None or (euros > 0 and euros >= money)
        if seen and enough and (severity is None or grave >= SEVERITIES.index(severity)):
            plain.append((number, grave, euros or -1, hour))
    orders: dict[str, Any] = {
        "newest": lambda each: (each[3], each[0]),
        "money": lambda each: (each[2], each[3], each[0]),
        "severity": lambda each: (each[1], each[3], each[0]),
    }
    expected = [each[0] for each in sorted(plain, key=orders[sort], reverse=True)]
    found, place = list[int](), None
    while True:
        page = harness.service.page(QueueFilter(view=view, severity=severity, money=money), "ada", sort, place, limit)
        found += [int(each["number"][2:]) for each in page.items]
        place = page.place
        if place is None:
            break
    assert found == expected
    harness.close()
