"""Hostile names and addresses: whatever stands in a record, pages show it as text and are answered."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from crossline.core.basics.times import instant_text
from crossline.core.settings.process.casework import CasesSettings
from crossline.serve.cases.cases import FILE
from crossline.serve.cases.intake.taking import Intake

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
    intake = Intake(at.parts.deps.path / FILE, CasesSettings.model_validate(CASES), clock_ms=at.clock)
    steps: list[Any] = []
    for number, value in enumerate(values):
        said = {
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
        steps.append(("alerts", orjson.dumps(said)))
    intake.take(steps, None)
    intake.close()
    rows = at.parts.deps.desk.file.rows(  # type: ignore[union-attr]  # it is there
        "SELECT case_seq FROM case_alerts WHERE alert_id LIKE 'hostile%' ORDER BY alert_id"
    )
    return [f"C-{each['case_seq']}" for each in rows]




@pytest.mark.parametrize("value", NAMES.values(), ids=NAMES)
def test_an_entity_of_any_name_is_shown_as_text(casework: Room, value: str) -> None:
    (number,) = taken(casework, value)
    seat = casework.seated("ines.vale", "analyst")
    shown = value[:1_000]
    paths = [
        "/queue?view=all",
        f"/queue?{urlencode({'view': 'all', 'q': shown[:100]})}",
        f"/queue?{urlencode({'view': 'all', 'entity': f'account_id:{shown}'})}",
        f"/queue/preview/{number}?view=all",
        f"/cases/{number}",
        f"/search?{urlencode({'q': shown[:100]})}",
        f"/entities/account_id/{quote(value, safe='')}",
        f"/entities/account_id/{quote(value, safe='')}?act=hold",
        f"/links/account_id/{quote(value, safe='')}",
    ]
    for path in paths:
        answer = seat.get(path)
        assert answer.status_code in {200, 303, 404, 422}, (path[:200], answer.status_code)
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        assert "49$" not in answer.text
    page = seat.get(f"/cases/{number}")
    assert page.status_code == 200
    # What a page links to is there.
    for link in set(re.findall(r'href="(/(?:entities|links|queue)[^"]*)"', page.text)):
        assert seat.get(html.unescape(link)).status_code in {200, 303}, link[:200]
