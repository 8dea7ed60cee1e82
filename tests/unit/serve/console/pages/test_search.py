"""The search: one field for words and ids, by API and page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.io.stores.protocol import DecisionFilter
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.intake.batches import CaseIntake
from unit.serve.cases.casekit import SETTINGS, START, alert
from unit.serve.http.kit import NOW_MS

from .working import seat, working

WEEK = 7 * 86_400_000
ID = "0f" * 16


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Any]:
    """The example, whose rules and decisions are known, and two cases: C-1 of a1 with a card, C-2 of a22."""
    with working(tmp_path) as at:
        intake = CaseIntake(at.parts.deps.desk.file.path, SETTINGS, clock_ms=lambda: NOW_MS)
        caption = [
            alert(ID, record={"card_hash": "same-7"}, message="a1 made a burst of <b>gifts</b>"),
            alert("y1", START + WEEK, "a22", severity="critical", message="a22 sent gifts away"),
            alert("z1", START + 2 * WEEK, "same-7", message="an account that is called as a card"),
        ]
        intake.take([("alerts", orjson.dumps(each)) for each in caption], None)
        intake.close()
        at.parts.deps.desk.act("C-2", CaseAction("note", text="the mule phoned"), "mary")
        yield at


def groups(page: str) -> dict[str, list[str]]:
    """By kind the names of what was found."""
    parts = re.split(r'<section class="sec found"><header><h2>', page)[1:]
    return {part.partition("<")[0]: re.findall(r'<a class="lk id" href="[^"]+">([^<]+)</a>', part) for part in parts}


def test_words_find_cases_and_alerts_the_latest_first(room: Any) -> None:
    vera = seat(room, "vera.lux")
    page = vera.get("/search?q=gifts").text
    assert groups(page) == {"Cases": ["C-2", "C-1"], "Alerts": ["y1", ID[:8]]}
    assert "<b>gifts" not in page
    assert f'href="/cases/C-1?alert={ID}"' in page
    assert groups(vera.get("/search?q=gift+made").text) == {"Cases": ["C-1"], "Alerts": [ID[:8]]}
    assert groups(vera.get("/search?q=mule").text) == {"Cases": ["C-2"]}  # a note of it
    assert "Nothing has all of these words" in vera.get("/search?q=nowhere").text


@pytest.mark.parametrize(
    ("q", "address"),
    [
        ("C-2", "/cases/C-2"),
        ("c-2", "/cases/C-2"),
        (ID, f"/cases/C-1?alert={ID}"),
        ("a22", "/entities/account_id/a22"),
        ("card_testing", "/rules/card_testing"),
    ],
)
def test_an_exact_id_goes_straight_to_its_page(room: Any, q: str, address: str) -> None:
    vera = seat(room, "vera.lux")
    answer = vera.get(f"/search?q={q}")
    assert (answer.status_code, answer.headers.get("location")) == (303, address)
    assert vera.get(address).status_code == 200


def test_the_id_of_a_decision_and_of_its_record_go_to_it(room: Any) -> None:
    with closing(room.parts.deps.store()) as store:
        (first,) = list(store.decisions(DecisionFilter(), 1))
    vera = seat(room, "vera.lux")
    for q in (first["decision_id"], first["record_id"]):
        assert vera.get(f"/search?q={q}").headers.get("location") == f"/decisions/{first['decision_id']}"
    found = groups(vera.get(f"/search?q={first['decision_id'][:8]}").text)
    assert first["decision_id"][:8] in found["Decisions"]


def test_an_id_of_two_things_shows_both(room: Any) -> None:
    answer = seat(room, "vera.lux").get("/search?q=same-7")
    assert answer.status_code == 200
    assert sorted(groups(answer.text)["Entities"]) == ["same-7", "same-7"]


def test_the_beginning_of_a_value_and_words_of_a_rule_are_enough(room: Any) -> None:
    vera = seat(room, "vera.lux")
    assert groups(vera.get("/search?q=a2").text)["Entities"] == ["a22"]
    assert groups(vera.get("/search?q=card_test").text)["Rules"] == ["card_testing"]


def test_what_is_typed_is_bounded_and_harmless(room: Any) -> None:
    vera = seat(room, "vera.lux")
    assert "Words find cases and alerts" in vera.get("/search").text
    assert "expected at most 200" in vera.get(f"/search?q={'x' * 201}").text
    for q in ('"', "*", "a OR b", "NEAR(", "%00", "C-99999999999999999999", "<script>", "%F0%9F%92%A3", "-", "a:b"):
        answer = vera.get(f"/search?q={q}")
        assert answer.status_code == 200, q
        assert "<script>" not in answer.text.partition("<main")[2]


def test_every_page_has_the_search_for_who_may_read(room: Any) -> None:
    page = seat(room, "vera.lux").get("/profile").text
    assert '<form class="search" role="search" aria-label="Search the console" action="/search"' in page
    assert 'data-key="/"' in page
    room.user("svc.only", "service")
    made = room.seat()
    made.log_in("svc.only")
    assert made.get("/search?q=gifts").status_code == 403
    assert 'action="/search"' not in made.get("/profile").text


def test_more_than_are_shown_are_stated(room: Any) -> None:
    desk = room.parts.deps.desk
    intake = CaseIntake(desk.file.path, SETTINGS, clock_ms=lambda: NOW_MS)
    many = [alert(f"m{n:02}", START + n * WEEK, f"b{n:02}", message=f"pattern {n}") for n in range(12)]
    intake.take([("alerts", orjson.dumps(each)) for each in many], None)
    intake.close()
    page = seat(room, "vera.lux").get("/search?q=pattern").text
    assert [len(each) for each in groups(page).values()] == [10, 10]
    assert groups(page)["Alerts"][0] == "m11"
    assert 'href="/queue?view=all&amp;q=pattern"' in page
    assert len(groups(seat(room, "vera.lux").get("/search?q=b").text)["Entities"]) == 10
