"""A case: its evidence, its acts, two people, where it went."""

from __future__ import annotations

import csv
import html
import json
import re
import sqlite3
from typing import Any

import pytest

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.service import CaseService
from crossline.serve.http.reads import evidence

from ..kit import Room  # noqa: TID252 - the kit of the console's tests
from .test_queue import stored, toast

MULE = "798ae05b-c6e1-564b-9406-ca9f78ecef3e"


def desk_of(room: Room) -> CaseService:
    found = room.parts.deps.desk
    assert found is not None
    return found


def text_of(answer: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", answer).split()))


def test_the_sentence_its_facts_and_what_stands_beside(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    text = seat.get(f"/cases/C-1?view=open&alert={MULE[:8]}").text
    assert "6 accounts sent 150.00 or more to beneficiary b0005534 in 15 min" in text_of(text)
    caption = text_of(text)
    for each in ("EUR 533.17 at risk", "2 alerts by 2 rules", "first 00:02:49, last 00:04:16", "review", "score 60"):
        assert each in caption
    assert "It fires where the number of different account_id of such payments" in caption
    assert re.search(r'href="[^"]+" aria-current="page">.*?beneficiary_many_senders', text)


def test_the_evidence_is_drawn_to_the_width_that_is_reported(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    path = f"/cases/C-1/evidence/{MULE}"
    part = seat.get(f"{path}?width=700", {"HX-Request": "true"}).text
    assert re.search(r'<svg class="ch" width="700" height="\d+"', part)
    assert "<html" not in part
    assert part.count("<td>crosses the threshold</td>") == 1
    assert "6 at least 6" in text_of(part)
    assert 'data-width="700"' in part
    seat.cookies["crossline-width"] = "640"
    whole = seat.get("/cases/C-1").text  # it is remembered, and stands in the page
    assert re.search(r'<svg class="ch" width="640"', whole)
    assert 'hx-get="/cases/C-1/evidence' not in whole


def test_the_records_as_csv(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    answer = seat.get(f"/cases/C-1/records/{MULE}")
    assert answer.headers["content-type"].startswith("text/csv")
    table = list(csv.DictReader(answer.text.splitlines()))
    assert [each["record"] for each in table if each["mark"] in {"counted", "crossing"}] == [
        "t0003379", "t0003504", "t0003604", "t0004024", "t0004570", "t0005122",
    ]  # fmt: skip
    assert [each["amount"] for each in table if each["mark"] == "crossing"] == ["225.00"]


def test_what_would_not_have_fired(casework: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "ANSWER_WITHIN_S", 300.0)  # a search ends with the loop of its request here
    caption = text_of(casework.seated("ines.vale").get(f"/cases/C-1/changes/{MULE}", {"HX-Request": "true"}).text)
    assert "Threshold of distinct_count of account_id 6 7" in caption
    assert "Amount of t0005122 225.00 149.99" in caption  # not by the field of its minor units


def test_an_alert_of_another_case_is_not_there(casework: Room) -> None:
    assert casework.seated("ines.vale").get(f"/cases/C-2/evidence/{MULE}").status_code == 404


def test_resolve_and_next_goes_on_in_the_view_that_one_came_from(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    cases = [
        f"C-{seq}"
        for (seq,) in stored(
            casework, "SELECT seq FROM cases WHERE rules = 'account_cash_out' ORDER BY last_ms DESC, seq DESC"
        )
    ]
    back = "view=open&rule=account_cash_out"
    for number, following in zip(cases, [*cases[1:], None], strict=True):
        answer = seat.act(f"/cases/{number}/act", {"act": "resolve", "label": "fraud", "next": "1", "back": back})
        wanted = f"/cases/{following}?{back}" if following else f"/queue?{back}"
        assert (answer.status_code, answer.headers["location"]) == (303, wanted)
    assert toast(seat).endswith("That was the last of 1.")


def test_a_case_that_another_user_resolved_says_so_and_allows_no_action(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    before = int(stored(casework, "SELECT version FROM cases WHERE seq = 3")[0][0])
    desk_of(casework).act("C-3", CaseAction("resolve", label="good", reason="a fee"), "tomas.brandt")
    text = seat.get("/cases/C-3").text
    assert "tomas.brandt resolved this case at" in text
    assert "as good." in text
    state = seat.get(f"/cases/C-3/state?version={before}&alerts=1&money=x").text
    assert "data-over=" in state
    answer = seat.act("/cases/C-3/act", {"act": "escalate", "to": "oda.lind", "version": str(before), "back": ""})
    assert answer.status_code == 412
    assert "Nothing was done." in answer.text
    assert "oda.lind" in answer.text  # what was typed is kept


def test_good_asks_for_a_reason(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    answer = seat.act("/cases/C-3/act", {"act": "resolve", "label": "good", "back": ""})
    assert answer.status_code == 422
    assert stored(casework, "SELECT state FROM cases WHERE seq = 3") == [("open",)]


def test_two_people_on_one_case_see_each_other(casework: Room) -> None:
    ines, tomas = casework.seated("ines.vale"), casework.seated("tomas.brandt")
    assert "Also here" not in ines.get("/cases/C-1").text
    assert "Also here" in tomas.get("/cases/C-1").text
    assert "tomas.brandt" in ines.get("/cases/C-1/state").text
    casework.clock.now_ms += 80_000
    assert "tomas.brandt" not in ines.get("/cases/C-1/state").text


def test_a_merged_case_answers_at_its_old_number(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    answer = seat.act("/cases/C-3/act", {"act": "merge", "others": "C-5, C-9", "back": ""})
    assert answer.status_code == 303
    old = seat.get("/cases/C-5")
    assert old.status_code == 200
    assert "C-5 was merged into C-3." in old.text
    assert 'href="/cases/C-3' in old.text
    assert "with C-5, C-9" in text_of(seat.get("/cases/C-3").text)


def test_an_alert_is_detached_and_a_note_is_written(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    assert seat.act("/cases/C-1/act", {"act": "detach", "alert_id": MULE, "back": ""}).status_code == 303
    assert stored(casework, "SELECT case_seq FROM case_alerts WHERE alert_id = ?", MULE) == [(64,)]
    seat.act("/cases/C-1/act", {"act": "note", "text": "<b>she</b> does not know the payee", "back": ""})
    page = seat.get("/cases/C-1").text
    assert "&lt;b&gt;she&lt;/b&gt; does not know the payee" in page
    assert "gave an alert of it a case of its own, C-64" in text_of(page)


@pytest.mark.parametrize("role", ["analyst", "viewer"])
def test_a_hold_says_before_what_it_will_stop(casework: Room, role: str) -> None:
    seat = casework.seated("ines.vale", role)
    page = seat.get(f"/cases/C-1?ask=hold&alert={MULE}").text
    if role == "viewer":
        assert 'disabled title="Your roles let you hold nothing: that takes hold."' in page
        assert seat.act("/cases/C-1/hold", {"alert_id": MULE, "back": ""}).status_code == 403
        return
    assert re.search(r"this would have stopped 12 payments, EUR [\d,.]+\.", text_of(page))
    until = html.unescape(re.findall(r'<option value="(2026[^"]+)"', page)[0])
    form = {"alert_id": MULE, "until": until, "action": "block", "reason": "a mule", "back": "view=open"}
    answer = seat.act("/cases/C-1/hold", {**form, "reason": ""})
    assert answer.status_code == 422
    answer = seat.act("/cases/C-1/hold", form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/cases/C-1?view=open")
    assert "b0005534 is held until" in toast(seat)
    assert sum("/v1/holds" in str(each) for each in casework.audited()) >= 1


def test_who_may_not_read_records_is_reported(casework: Room) -> None:
    seat = casework.seated("vera.view", "viewer")
    page = seat.get("/cases/C-1").text
    assert "that takes read:records" in page
    assert seat.get(f"/cases/C-1/evidence/{MULE}").status_code == 403


def test_a_merge_offers_the_linked_cases_that_are_open(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    seat.act("/cases/C-1/act", {"act": "detach", "alert_id": MULE, "back": ""})  # C-64, which shares the card
    page = seat.get("/cases/C-1?ask=merge").text
    assert re.findall(r'name="near" value="([^"]+)"', page) == ["C-64"]
    assert "C-64, same beneficiary: 6 accounts sent 150.00 or more to beneficiary b0005534" in text_of(page)
    answer = seat.act("/cases/C-1/act", {"act": "merge", "near": "C-64", "others": "C-3", "back": ""})
    assert answer.status_code == 303
    assert "with C-3, C-64" in text_of(seat.get("/cases/C-1").text)
    assert 'name="near"' not in seat.get("/cases/C-1?ask=merge").text


def test_a_hold_counts_alerts_beyond_the_records_that_were_read_back(casework: Room) -> None:
    """One more alert of the mule, an hour later: its record is in no source any more."""
    known = next(each for each in jsonl(casework, "alerts") if each["alert_id"] == MULE)
    record = {**known["record"], "amount_cents": 5_050}
    later = {"alert_id": MULE.replace("798a", "00aa"), "record_id": "t9", "event_time": "2026-01-01T01:04:16.550Z"}
    sink = SqliteSink(casework.folder / "out/crossline.db", "cards")
    sink.open()
    sink.deliver(Delivery("cards", 1, alerts=[{**known, **later, "record": record}]))
    sink.close()
    caption = text_of(casework.seated("ines.vale").get(f"/cases/C-1?ask=hold&alert={MULE}").text)
    assert "1 more of the past 24 hours raised alerts and was let through, EUR 50.50." in caption


def test_a_hold_says_what_was_blocked_already(casework: Room) -> None:
    seat = casework.seated("ines.vale")
    ((number, alert_id),) = stored(
        casework,
        "SELECT c.case_seq, a.alert_id FROM alerts AS a JOIN case_alerts AS c USING (alert_id) "
        "WHERE a.rule_id = 'account_cash_out' ORDER BY a.event_ms LIMIT 1",
    )
    records = csv.DictReader(seat.get(f"/cases/C-{number}/records/{alert_id}").text.splitlines())
    mine = {each["record"] for each in records}
    blocked = {each["record_id"] for each in jsonl(casework, "decisions") if each["decision"] == "block"} & mine
    assert blocked
    caption = text_of(seat.get(f"/cases/C-{number}?ask=hold&alert={alert_id}").text)
    assert f" {len(blocked)} of them {'was' if len(blocked) == 1 else 'were'} blocked already." in caption


def test_the_rule_stands_with_its_difference_to_the_version_before(casework: Room) -> None:
    """The alert names a second version, which is in a file."""
    path = next(each for each in (casework.folder / "rules").glob("*.yaml") if "beneficiary" in each.read_text())
    text = path.read_text()
    body = text[text.index("- rule_id: beneficiary_many_senders") :]
    again = body.replace("version: 1", "version: 2", 1).replace("aggregation_threshold: 6", "aggregation_threshold: 5")
    (casework.folder / "rules/second.yaml").write_text(again)
    with sqlite3.connect(casework.folder / "serve/cases.db") as db:
        db.execute("UPDATE alerts SET rule_version = 2 WHERE alert_id = ?", (MULE,))
    caption = text_of(casework.seated("ines.vale").get(f"/cases/C-1?alert={MULE}").text)
    assert "Rule version 2" in caption
    assert "4 lines differ from version 1" in caption  # version and threshold, each as it was and as it is
    assert "removed: aggregation_threshold: 6" in caption
    assert "added: aggregation_threshold: 5" in caption


def jsonl(room: Room, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (room.folder / f"{name}.jsonl").read_text().splitlines()]
