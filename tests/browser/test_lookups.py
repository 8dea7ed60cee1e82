"""Links, dead letters and the search in a browser: for axe, narrow, by keyboard; the drawing under the policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from crossline.io.recordlog.filelog import FileRecordLog
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.serve.dead_letters.repair import JsonRepair
from crossline.serve.dead_letters.resend import DeadLetters, Resender, ResendTarget
from crossline.serve.dead_letters.resend_log import ResentFile
from crossline.serve.decisions.records import StreamRecords
from unit.serve.cases.casekit import SETTINGS
from unit.serve.console import kit
from unit.serve.console.pages.test_dead import GOOD, LETTERS
from unit.serve.console.pages.test_links import take
from unit.serve.console.pages.working import working
from unit.serve.http.kit import FakeEvents

from .conftest import Opened, Site, watching
from .serving import serving
from .test_pages import faults

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def console(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Opens pages of a console whose cases link three accounts, and whose pipeline has dead letters."""
    folder = tmp_path_factory.mktemp("lookups")
    resent, log = ResentFile(folder / "resent.db"), FileRecordLog(folder / "in", "id")
    streams = kit.pipeline(folder).streams
    ways = {"payments": ResendTarget(JsonRepair(StreamRecords(streams), "payments"), log)}
    dead = DeadLetters(resent, Resender(streams, ways, resent, lambda: kit.NOW_MS))
    with working(folder, dead=dead, events=FakeEvents()) as room:
        sink = SqliteSink(room.folder / "out/crossline.db", room.parts.deps.config.name)
        sink.open()
        sink.deliver(Delivery(room.parts.deps.config.name, 1, dead=LETTERS))
        sink.close()
        take(room, SETTINGS)
        with serving(room.app) as url, watching(browser, Site(room, url, url)) as opened:
            yield opened
    kit.apart(log.close)
    resent.close()


def test_links_are_drawn_and_their_table_says_the_same(console: Opened, axe: str) -> None:
    at = console(scheme="dark")
    at.log_in("vera.lux", "/links/account_id/a1?depth=2")
    page = at.page
    expect(page.locator("#drawing")).to_have_attribute("data-drawn", "4")
    assert page.locator("#drawing canvas").count() > 0
    assert page.locator("tr[data-place]").count() == 3
    assert faults(page, axe) == []
    page.keyboard.press("3")
    page.wait_for_url("**/links/account_id/a1?depth=3")
    expect(page.locator("#drawing")).to_have_attribute("data-drawn", "5")
    page.locator("tr[data-place='2'] a").first.focus()
    expect(page.locator("tr.cur")).to_have_attribute("data-place", "2")
    page.get_by_role("button", name="Closer").click()
    page.keyboard.press("i")
    page.wait_for_url("**/entities/account_id/a1")


def test_a_phone_has_the_table_alone(console: Opened, axe: str) -> None:
    at = console(width=390, height=844)
    at.log_in("olga.ops", "/links/account_id/a1")
    expect(at.page.locator("tr[data-place]").first).to_be_visible()
    expect(at.page.locator("#drawing")).to_be_hidden()
    for path in ("/links/account_id/a1", "/search?q=burst", "/dead-letters", "/dead-letters?state=all&reason=bad_time"):
        at.page.goto(at.site.url + path)
        assert at.page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert faults(at.page, axe) == [], path


def test_a_dead_letter_is_mended_and_sent(console: Opened, axe: str) -> None:
    at = console()
    at.expected = {422}
    at.log_in("olga.ops", "/dead-letters?reason=malformed_json")
    page = at.page
    assert faults(page, axe) == []
    page.get_by_role("link", name="malformed_json", exact=True).last.click()
    page.wait_for_url("**/dead-letters/*-*")
    assert faults(page, axe) == []
    page.keyboard.press("e")
    expect(page.locator("#f-record")).to_be_focused()
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was sent.")
    assert faults(page, axe) == []
    page.fill("#f-record", GOOD)
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_text("Sent again as record p1")).to_be_visible()
    expect(page.get_by_role("button", name="Send it again")).to_have_count(0)
    assert faults(page, axe) == []


def test_a_slash_searches_from_everywhere_and_an_id_goes_to_its_page(console: Opened, axe: str) -> None:
    at = console()
    at.log_in("vera.lux")  # who asks for no evidence: these alerts are of no source
    page = at.page
    page.keyboard.press("/")
    page.keyboard.type("made a burst")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=made+a+burst")
    expect(page.locator(".found h2").first).to_have_text("Cases")
    assert faults(page, axe) == []
    page.keyboard.press("/")
    page.keyboard.type("c-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cases/C-1")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/entities")
