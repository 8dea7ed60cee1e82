"""The queue: filters in the address, rows, acts on many, undo, what is new, who may what."""

from __future__ import annotations

import html
import re
import sqlite3
from urllib.parse import parse_qs, urlsplit

import pytest

from crossline.serve.cases.actions.values import CaseAction

from ..kit import HERE, Room, Seat  # noqa: TID252 - the kit of the console's tests

ROW = re.compile(r'<li class="case[^"]*" data-case="(C-\d+)">')


def rows(text: str) -> list[str]:
    return ROW.findall(text)


def stored(room: Room, query: str, *values: object) -> list[tuple[object, ...]]:
    """Asked of the file itself."""
    with sqlite3.connect(room.folder / "serve/cases.db") as db:
        return db.execute(query, values).fetchall()


def toast(seat: Seat, path: str = "/queue?view=open") -> str:
    found = re.search(r'<div class="toast[^>]*><span>(.*?)</span>', seat.get(path).text)
    return "" if found is None else html.unescape(found[1])


def undo_of(seat: Seat, path: str = "/queue?view=open") -> str:
    found = re.search(r'action="(/queue/undo/\d+)"', seat.get(path).text)
    assert found is not None
    return found[1]


def test_the_newest_alert_comes_first_and_the_next_rows_follow(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    wanted = [f"C-{seq}" for (seq,) in stored(casework, "SELECT seq FROM cases ORDER BY last_ms DESC, seq DESC")]
    first = seat.get("/queue?view=open").text
    assert rows(first) == wanted[:50]
    more = html.unescape(re.findall(r'data-more="([^"]+)"', first)[0])
    part = seat.get(more, {"HX-Request": "true"}).text
    assert rows(part) == wanted[50:]
    assert "<html" not in part
    assert rows(seat.get(more).text) == wanted[50:]  # without script it is a page


def test_filters_stand_in_the_address_and_can_be_taken_away(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    text = seat.get("/queue?view=open&severity=critical&rule=device_many_cards").text
    wanted = stored(casework, "SELECT seq FROM cases WHERE severity = 4 AND rules LIKE '%device_many_cards%'")
    assert sorted(rows(text)) == sorted(f"C-{seq}" for (seq,) in wanted)
    chips = re.findall(r'<a class="chip" href="([^"]+)" aria-label="Take away ([^"]+)"', text)
    assert [(caption, parse_qs(urlsplit(html.unescape(path)).query)) for path, caption in chips] == [
        ("Severity critical", {"view": ["open"], "rule": ["device_many_cards"]}),
        ("Rule device_many_cards", {"view": ["open"], "severity": ["critical"]}),
    ]
    one = seat.get("/queue?view=open&entity=beneficiary_id:b0005534").text
    assert rows(one) == ["C-1"]


@pytest.mark.parametrize(
    ("query", "caption"),
    [
        ("severity=grave", "?severity: found"),
        ("entity=b1", "expected FIELD:VALUE"),
        ("money=much", "expected a number, such as 1000"),
        ("view=nothing", "?view"),
    ],
)
def test_a_filter_that_is_none_is_reported(casework: Room, query: str, caption: str) -> None:
    answer = casework.seated("ines.vale").get(f"/queue?{query}")
    assert answer.status_code == 422
    assert caption in answer.text


def test_empty_texts(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    text = seat.get("/queue?view=open&severity=high&q=nothinglikeit").text
    assert "No case matches 2 filters." in text
    assert "63 are all open without them." in text
    assert 'href="/queue?view=open">Clear filters' in text
    assert "You have no case." in seat.get("/queue?view=mine").text


def test_many_are_resolved_with_a_label_and_it_is_undone(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    asked = seat.get("/queue?view=open&ask=resolve&case=C-2&case=C-1").text
    assert "<b>2 cases</b>" in asked
    assert "7 alerts get the label" in asked
    form = {"act": "resolve", "label": "fraud", "case": ["C-2", "C-1"], "back": "view=open"}
    answer = seat.act("/queue/act", form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/queue?view=open")
    assert stored(casework, "SELECT seq FROM cases WHERE state = 'resolved' AND verdict = 1") == [(1,), (2,)]
    assert "2 cases resolved as fraud." in toast(seat)
    labelled = stored(casework, "SELECT count(DISTINCT record_id) FROM labels WHERE is_fraud = 1")
    assert labelled == stored(casework, "SELECT count(DISTINCT record_id) FROM case_alerts WHERE case_seq IN (1, 2)")
    again = seat.act("/queue/act", form)  # they are resolved: nothing is done, and it says so
    assert again.status_code == 303
    assert "Nothing was done. Left as they are: C-2, and 1 more" in toast(seat)
    assert stored(casework, "SELECT count(*) FROM acts WHERE act = 'resolve'") == [(2,)]


def test_undo_takes_back_what_was_done_at_once(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    seat.act("/queue/act", {"act": "assign", "case": ["C-3", "C-4"], "back": "view=open"})
    path = undo_of(seat)
    assert stored(casework, "SELECT seq FROM cases WHERE assignee = 'ines.vale'") == [(3,), (4,)]
    assert seat.act(path).status_code == 303
    assert toast(seat) == "Undone for 2 cases."
    assert stored(casework, "SELECT seq FROM cases WHERE assignee = 'ines.vale'") == []
    assert seat.act(path).status_code == 404  # it is undone already


def test_all_of_a_filter_needs_the_count_that_there_is(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    form = {"act": "snooze", "every": "1", "count": "12", "back": "view=open&rule=account_cash_out"}
    assert seat.act("/queue/act", {**form, "count": "13"}).status_code == 422
    assert stored(casework, "SELECT count(*) FROM cases WHERE state = 'snoozed'") == [(0,)]
    assert seat.act("/queue/act", form).status_code == 303
    assert stored(casework, "SELECT count(*) FROM cases WHERE state = 'snoozed'") == [(12,)]


def test_more_than_100_are_typed(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    names = [f"C-{number}" for number in range(1, 102)]
    answer = seat.act("/queue/act", {"act": "assign", "case": names, "back": ""})
    assert answer.status_code == 422
    assert "101, for so many cases are changed" in answer.text
    assert stored(casework, "SELECT count(*) FROM cases WHERE assignee IS NOT NULL") == [(0,)]
    seat.act("/queue/act", {"act": "assign", "case": names, "back": "", "typed": "101", "count": "101"})
    assert stored(casework, "SELECT count(*) FROM cases WHERE assignee IS NOT NULL") == [(63,)]  # so many there are


def test_what_is_new_is_counted_from_where_one_looked(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    critical = stored(casework, "SELECT count(*) FROM cases WHERE seq > 60 AND severity = 4")[0][0]
    text = seat.get("/queue/news?view=open&seen=60").text
    assert f"<b>3 new cases</b> above, {critical} of them critical. Show them" in text
    assert seat.get("/queue/news?view=open&seen=63").text.strip() == ""
    shown = seat.get("/queue?view=open&seen=60").text
    assert re.findall(r'fresh-row" data-case="(C-\d+)"', shown) == [
        each for each in rows(shown) if each in {"C-61", "C-62", "C-63"}
    ]


def test_who_may_only_read_sees_acts_disabled_with_the_reason(casework: Room) -> None:
    seat = casework.seated("vera.view", "viewer")
    text = seat.get("/queue?view=open").text
    assert text.count('disabled title="Your roles let you read cases and not change them: that takes write:cases."') > 5
    assert "/queue?view=open&amp;ask=resolve" not in text
    answer = seat.act("/queue/act", {"act": "assign", "case": "C-1", "back": ""})
    assert answer.status_code == 403
    assert casework.seated("sam.service", "service").get("/queue").status_code == 403


def test_a_form_of_another_page_does_nothing(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    assert seat.post("/queue/act", {"act": "assign", "case": "C-1"}).status_code == 403  # no token
    token = seat.token()
    foreign = {**HERE, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = seat.ask("POST", "/queue/act", foreign, data={"act": "assign", "case": "C-1", "token": token})
    assert answer.status_code == 403
    assert stored(casework, "SELECT count(*) FROM cases WHERE assignee IS NOT NULL") == [(0,)]


def test_each_act_is_an_audit_event(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    seat.act("/queue/act", {"act": "assign", "case": "C-1", "back": ""})
    events = [each for each in casework.audited() if "/queue/act" in str(each)]
    assert events
    assert all("ines.vale" in str(each) for each in events)


def test_a_default_view_is_what_the_queue_opens_with(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    query = "view=open&severity=high&entity=beneficiary_id%3Ab0005534&sort=money"
    assert seat.act("/views", {"name": "Mules", "query": query, "default": "1"}).status_code == 303
    answer = seat.get("/queue")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/queue?{query}")
    page = seat.get(f"/queue?{query}").text
    assert re.search(r'aria-current="page">Mules<span class="n">1</span>', page)
    assert "Mules" in seat.get("/views").text
    assert seat.act("/views/forget", {"name": "Mules"}).status_code == 303
    assert seat.get("/queue").status_code == 200


def test_the_rail_counts_on_every_page(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    desk = casework.parts.deps.desk
    assert desk is not None
    desk.act("C-1", CaseAction("assign"), "ines.vale")
    desk.act("C-2", CaseAction("snooze"), "ines.vale")
    text = seat.get("/profile").text
    assert re.search(r'href="/queue">Queue<span class="n">61</span>', text)
    assert re.search(r'href="/queue\?view=mine">My cases<span class="n">1</span>', text)
    assert re.search(r'href="/queue\?view=snoozed">Snoozed<span class="n">1</span>', text)
