"""Links: who else belongs to an entity, by API and page; what is drawn is what the table says."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.serve.cases.intake.batches import CaseIntake
from crossline.settings.process.casework import CasesSettings
from unit.serve.cases.casekit import SETTINGS, START, alert
from unit.serve.http.kit import NOW_MS

from .working import seat, working

CARD = "4f" * 32
KEY = {"Authorization": "Bearer x"}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Any]:
    """C-1: accounts a1 and a2 share a card; a2 has a device, as has a7 in C-2; a7 was blocked."""
    with working(tmp_path) as at:
        take(at, SETTINGS)
        yield at


def take(at: Any, settings: CasesSettings) -> None:
    intake = CaseIntake(at.parts.deps.desk.file.path, settings, clock_ms=lambda: NOW_MS)
    week = 7 * 86_400_000
    caption = [
        alert("x1", record={"card_hash": CARD}),
        alert("x2", START + 1, "a2", record={"card_hash": CARD, "device_id": "d'><b>9"}),
        alert("y1", START + week, "a7", record={"device_id": "d'><b>9"}),
    ]
    intake.take([("alerts", orjson.dumps(each)) for each in caption], None)
    decided = {"kind": "decision", "stream": "payments", "record_id": "r-y1", "decision": "block", "reasons": []}
    intake.take([("decisions", orjson.dumps(decided))], None)
    intake.close()


def graph_of(page: str) -> dict[str, Any]:
    found = re.search(r'data-graph="([^"]*)"', page)
    assert found is not None
    made: dict[str, Any] = orjson.loads(html.unescape(found[1]))
    return made


def test_the_table_says_who_is_linked_and_through_what(room: Any) -> None:
    page = seat(room, "vera.lux").get("/links/account_id/a1?depth=2").text
    rows = [
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", each))
        for each in re.findall(r"<tr data-place.*?</tr>", page, re.DOTALL)
    ]
    assert len(rows) == 3
    assert "4f4f4f4f…4f4f card_hash 1 account_id a1 1 alert" in html.unescape(rows[0])
    assert "a2 account_id 2 card_hash 4f4f4f4f…4f4f 1 alert" in html.unescape(rows[1])
    assert "3 other entities within 2 steps" in page
    assert "1 held or blocked" in page  # the device, by a case in which a1 is not
    assert "Left out" not in page


def test_a_step_more_goes_farther_and_red_is_what_was_blocked(room: Any) -> None:
    page = seat(room, "vera.lux").get("/links/account_id/a1?depth=3").text
    drawn = graph_of(page)
    assert [(each["text"], each["steps"], each["stopped"]) for each in drawn["nodes"]] == [
        ("a1", 0, ""), ("4f4f4f4f…4f4f", 1, ""), ("a2", 2, ""), ("d'><b>9", 2, "blocked"), ("a7", 3, "blocked"),
    ]  # fmt: skip
    assert drawn["links"] == [[0, 1, 1], [1, 2, 1], [1, 3, 1], [2, 3, 1], [3, 4, 1]]
    assert page.count('class="dec block"') == 2
    assert "2 held or blocked" in page
    assert "<b>9" not in page


def test_a_value_of_any_text_has_its_page(room: Any) -> None:
    vera = seat(room, "vera.lux")
    answer = vera.get("/links/device_id/d'%3E%3Cb%3E9?depth=1")
    assert (answer.status_code, len(graph_of(answer.text)["nodes"])) == (200, 4)
    assert "No other entity stands in an alert with it." in vera.get("/links/device_id/a%2Flinks").text
    assert vera.get("/links/account_id/a1?depth=4").status_code == 422
    assert "a whole number from 1 to 3" in vera.get("/links/account_id/a1?depth=x").text


def test_only_this_page_loads_the_drawing(room: Any) -> None:
    ines = seat(room, "ines.vale")
    assert "vendor/cytoscape.js" in ines.get("/links/account_id/a1").text
    entity = ines.get("/entities/account_id/a1").text
    assert 'href="/links/account_id/a1"' in entity
    assert "cytoscape" not in entity
    case = ines.get("/cases/C-1").text
    assert 'href="/links/account_id/a1"' in case
    assert "cytoscape" not in case


def test_who_may_not_read_alerts_sees_no_links(room: Any) -> None:
    room.user("svc.only", "service")
    made = room.seat()
    made.log_in("svc.only")
    assert made.get("/links/account_id/a1").status_code == 403
