"""Hostile names and addresses: whatever stands in a record, pages show it as text and are answered."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from crossline.basics.times import instant_text
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.cases import FILE
from crossline.serve.cases.intake.batches import CaseIntake
from crossline.serve.cases.values import NotTakenError
from crossline.settings.process.casework import CasesSettings

from ..cards import CASES  # noqa: TID252 - the kit of the console's tests
from ..kit import Room  # noqa: TID252 - the kit of the console's tests

NAMES = {
    "markup": "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>",
    "template": "{{ 7*7 }}{% raw %}${7*7}",
    "newlines": "first\r\nSet-Cookie: a=b\n\nthird",
    "right to left": "\u202e\u2066gnp.exe\u2069 \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "control": "nul\x00bell\x07esc\x1b[31mdel\x7f",
    "slashes": "../../etc/passwd?x=1#y&z=%2e%2f;a",
    "dots": "..",
    "blank": "   ",
    "ten kilobytes": "k" * 10_240,
    "one of the search": 'NEAR("a" b*) OR -c : {d} ^e',
    "sql": "'; DROP TABLE cases; --",
    "emoji": "\U0001f3f4\u200d\u2620\ufe0f\u0301" * 40,
}


def taken(at: Room, *values: str) -> list[str]:
    """An alert on each of these accounts; the numbers of their cases."""
    intake = CaseIntake(at.parts.deps.path / FILE, CasesSettings.model_validate(CASES), clock_ms=at.clock)
    steps: list[Any] = []
    for number, value in enumerate(values):
        caption = {
            "alert_id": f"hostile{number}",
            "kind": "alert",
            "rule_id": "burst",
            "rule_version": 1,
            "severity": "critical",
            "key": {"account_id": value},
            "stream": "payments",
            "record_id": f"{value}-record",
            "event_time": instant_text(at.clock.now_ms),
            "message": f"{value} made a burst",
            "record": {"amount_cents": 7, "currency": value},
        }
        steps.append(("alerts", orjson.dumps(caption)))
    intake.take(steps, None)
    intake.close()
    rows = at.parts.deps.desk.file.rows(  # type: ignore[union-attr]  # it is there
        "SELECT case_seq FROM case_alerts WHERE alert_id LIKE 'hostile%' ORDER BY alert_id"
    )
    return [f"C-{each['case_seq']}" for each in rows]


def test_entities_of_any_name_are_shown_as_text_and_links_lead_to_pages(casework: Room) -> None:
    seat = casework.seated("ines.vale", "analyst")
    for name, number in zip(NAMES, taken(casework, *NAMES.values()), strict=True):
        value = NAMES[name]
        for path in addresses(value, number):
            answer = seat.get(path)
            assert answer.status_code in {200, 303, 400, 404, 422}, (name, path[:200])
            assert "<script>alert" not in answer.text, name
            assert "<img src=x" not in answer.text, name
            assert "49$" not in answer.text, name
        page = seat.get(f"/cases/{number}")
        assert page.status_code == 200
        for link in set(re.findall(r'href="(/(?:entities|links|queue)[^"]*)"', page.text)):
            found = seat.get(html.unescape(link))
            reported = found.status_code == 422 and "a NUL" in found.text and "%00" in link
            assert reported or found.status_code in {200, 303}, (name, link[:200], found.status_code)


def addresses(value: str, number: str) -> list[str]:
    """Where such an entity and its case stand, as made by hand."""
    shown, whole = value[:100], quote(value, safe="")
    return [
        f"/queue?{urlencode({'view': 'all', 'q': shown})}",
        f"/queue?{urlencode({'view': 'all', 'entity': f'account_id:{value}'})}",
        f"/queue?{urlencode({'view': value, 'sort': value, 'rule': shown, 'money': shown, 'from': shown})}",
        f"/queue/preview/{number}?view=all",
        f"/queue/more?{urlencode({'view': 'all', 'cursor': value})}",
        f"/queue/news?{urlencode({'view': 'all', 'seen': shown})}",
        f"/search?{urlencode({'q': shown})}",
        f"/entities/account_id/{whole}?act=hold",
        f"/entities/{whole}/a1",
        f"/links/account_id/{whole}?{urlencode({'depth': shown})}",
        f"/entities?{urlencode({'field': 'account_id', 'value': value})}",
    ]


QUERIES = [
    "view=all&view=open",
    "money=nan",
    "money=-1e999",
    "money=1e400",
    "from=0&to=0",
    "from=99999999999999999999",
    "seen=-1&cursor=AAAA",
    "cursor=%FF%FE",
    "entity=:",
    "entity=account_id",
    "entity=account_id:a&entity=card_hash:b",
    "severity=__class__",
    "sort=-1",
    "q=%00",
    "q=" + "a" * 5_000,
    "case=" + "&case=".join(f"C-{number}" for number in range(200)) + "&ask=resolve",
    "case=C-99999999999999999999999&ask=resolve",
    "case=../../x&ask=assign",
    "ask=delete",
]


def test_filters_made_by_hand_are_answered_or_reported(casework: Room) -> None:
    seat = casework.seated("ines.vale", "analyst")
    for query in QUERIES:
        for path in ("/queue", "/queue/more", "/queue/news"):
            answer = seat.get(f"{path}?{query}")
            assert answer.status_code in {200, 400, 404, 422}, (path, query[:200], answer.status_code)


def test_two_at_once_one_acts_and_the_other_is_reported(casework: Room) -> None:
    (number,) = taken(casework, "a77")
    ines, tomas = casework.seated("ines.vale", "analyst"), casework.seated("tomas.brandt", "analyst")
    version = re.search(r'name="version" value="(\d+)"', ines.get(f"/cases/{number}").text)
    assert version is not None
    form = {"act": "resolve", "label": "fraud", "version": version[1], "back": "view=all"}
    assert ines.act(f"/cases/{number}/act", form).status_code == 303
    refused = tomas.act(f"/cases/{number}/act", {**form, "label": "good", "reason": "it is a known shop"})
    assert refused.status_code in {409, 412}
    desk: Any = casework.parts.deps.desk
    case = desk.case(number)
    assert (case["label"], case["changed_by"]) == ("fraud", "ines.vale")
    with pytest.raises(NotTakenError, match="undo of what"):
        desk.act(number, CaseAction("undo"), "tomas.brandt")
    # Once another has acted, the first one's act is no more the last.
    desk.act(number, CaseAction("reopen"), "tomas.brandt")
    with pytest.raises(NotTakenError, match="undo of what"):
        desk.act(number, CaseAction("undo"), "ines.vale")
    assert [each.is_fraud for each in desk.cases.labels() if each.record_id == "a77-record"] == [True]
