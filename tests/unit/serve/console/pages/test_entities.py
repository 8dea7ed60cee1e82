"""Entities: what is known of one, what holding it would have stopped, and that a reason is asked for."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import orjson
import pytest

from crossline.serve.console.pages.entities.consequence import Stopped, stopped
from crossline.serve.console.pages.entities.rows import by_day, figures
from crossline.settings.process.casework import MoneySettings

from .working import seat, working

DAY_MS = 86_400_000


def alert(record: str, **carried: object) -> dict[str, object]:
    return {"stream": "payments", "record_id": record, **({"record": carried} if carried else {})}


def test_what_it_would_have_stopped_is_reported_by_records_and_money() -> None:
    money = MoneySettings(field="amount_cents", currency="currency", decimals=2)
    of = [
        alert("p1", amount_cents=1250, currency="EUR"),
        alert("p1"),  # a second rule at the same record: it counts once
        alert("p2", amount_cents=100, currency="USD"),
        alert("p3", amount_cents=99_999, currency="EUR"),
        alert("p4"),
    ]
    found = stopped(of, {("payments", "p3"): "block", ("payments", "p2"): "review"}, {("payments", "p1")}, money)
    assert found == Stopped(3, {"EUR": Decimal("12.50"), "USD": Decimal("1.00")}, unknown=1, blocked=1, good=1)
    caption = "".join(text for text, _ in found.caption())
    assert "3 records that raised alerts, EUR 12.50 and USD 1.00" in caption
    assert "The money of 1 of them is unknown: no alert carries the record." in caption
    assert "1 of them is labelled good. 1 more was blocked already." in caption
    assert "Their money is unknown" in "".join(text for text, _ in stopped(of[1:2], {}, (), money).caption())
    assert "unknown" in stopped([], {}, (), None).caption()[0][0]


@pytest.mark.parametrize(
    ("operator", "value", "crossed"),
    [(">=", 6, True), (">", 6, False), ("<", 5, True), ("<=", 7, False), ("!=", 1, False)],
)
def test_a_figure_is_red_where_it_is_beyond_its_line(operator: str, value: int, crossed: bool) -> None:
    body = {"rule_id": "many", "rule_version": 3, "operator": operator, "value": value, "threshold": 6}
    assert [each.crossed for each in figures([body])] == [crossed]
    assert [each.crossed for each in figures([{**body, "value": None}])] == [False]


def test_days_are_counted_from_today() -> None:
    now_ms = 100 * DAY_MS + 5
    assert by_day([now_ms, 99 * DAY_MS, 99 * DAY_MS + 7, 71 * DAY_MS, 70 * DAY_MS, 3], now_ms)[-2:] == (2, 1)
    assert sum(by_day([71 * DAY_MS, 70 * DAY_MS], now_ms)) == 1


def test_an_id_is_gone_to(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        page = ines.get("/entities").text
        assert re.findall(r'<option value="(\w+)"', page)[0] == "account_id"
        answer = ines.get("/entities?field=account_id&value=a%2F1%20x")
        assert (answer.status_code, answer.headers["location"]) == (303, "/entities/account_id/a%2F1%20x")
        assert ines.get(answer.headers["location"]).status_code == 200
        assert "Type the id too." in ines.get("/entities?field=account_id").text


def test_an_entity_says_where_its_figures_are_from(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        page = seat(at, "vera.lux").get("/entities/account_id/a3").text
        assert "from its alerts, as of" in page
        assert "small card payments by account a3" in page
        assert 'href="/rules/card_testing"' in page
        assert re.search(r'<b class="c-crit">5</b></td><td class="num t3">at least 5<', page)
        assert "Held until" in page  # the example's rule holds its key for 30 minutes
        assert "To hold needs the scope hold, which vera.lux has not." in page
        assert "?act=hold" not in page
        assert (
            "<b>"
            not in re.sub(r"<b[ >]", "", seat(at, "vera.lux").get("/entities/account_id/%3Cb%3E").text)
            .split("<h1>")[1]
            .split("</h1>")[0]
        )


def test_the_consequence_stands_before_the_act_and_a_reason_is_asked_for(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        page = ines.get("/entities/account_id/a3?act=block&for=30m").text
        assert "will be <b>blocked until 09:45</b>" in page  # it is 09:15
        assert "that was not blocked already: what it would have stopped is unknown." in page
        assert "Block until 09:45" in page
        until = re.search(r'name="until" value="([^"]+)"', page)
        assert until is not None
        form = {"field": "account_id", "value": "a3", "act": "block", "action": "block", "until": until[1]}
        refused = ines.act("/entities/hold", {**form, "reason": " "})
        assert refused.status_code == 422
        assert "Reason: found nothing" in refused.text or "reason: found nothing" in refused.text
        assert not list((at.folder / "rules").rglob("hold*/*.json"))
        done = ines.act("/entities/hold", {**form, "reason": "eleven senders <i>"})
        assert (done.status_code, done.headers["location"]) == (303, "/entities/account_id/a3")
        assert "is to be held until 09:45" in ines.get("/entities/account_id/a3").text
        (held,) = [
            orjson.loads(each.read_bytes()) for each in (at.folder / "rules").rglob("*.json") if "hold" in str(each)
        ]
        assert held["key"] == {"account_id": "a3"}
        assert held["action"] == "block"
        assert held["reason"] == "eleven senders <i> (asked for by ines.vale)"
        event = next(each for each in at.audited() if each.get("resource") == "/entities/hold")
        assert (event["principal"], event["by"]) == ("ines.vale", "session")
        vera = seat(at, "vera.lux")
        assert vera.act("/entities/hold", {**form, "reason": "x"}).status_code == 403


def test_a_hold_is_released_with_a_reason(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        ines = seat(at, "ines.vale")
        page = ines.get("/entities/account_id/a3").text
        release = re.search(r'href="(/entities/account_id/a3\?release=[^"]+)#release"', page)
        assert release is not None
        page = ines.get(release[1]).text
        assert "held no more by it" in page
        form = {
            name: found.replace("&#34;", '"')
            for name in ("hold_id", "etag")
            for found in re.findall(rf'name="{name}" value="([^"]+)"', page)
        }
        whose = {"field": "account_id", "value": "a3"}
        assert ines.act("/entities/release", {**whose, **form, "reason": ""}).status_code == 422
        assert (
            ines.act("/entities/release", {**whose, **form, "etag": '"other"', "reason": "known payee"}).status_code
            == 412
        )
        assert ines.act("/entities/release", {**whose, **form, "reason": "known payee"}).status_code == 303
        assert "known payee (asked for by ines.vale)" in "".join(
            each.read_text() for each in (at.folder / "rules").rglob("*.json")
        )
