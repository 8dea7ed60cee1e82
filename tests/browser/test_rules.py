"""A rule in a browser: written by keyboard, its fault seen with its line, proven, approved by another, published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from unit.serve.console.kit import PASSWORD, Room
from unit.serve.console.pages.working import working

from .serving import serving
from .test_pages import faults

pytestmark = pytest.mark.xdist_group("browser")
WAIT_MS = 40_000  # a backtest starts a process
PAGES = (
    *("/entities", "/entities/account_id/a3?act=hold", "/rules", "/rules/card_testing?act=paused", "/rules/new"),
    *(
        "/rules/large_payment/1/edit",
        "/rules/card_testing/1/edit?view=form",
        "/approvals",
        "/lists",
        "/lists/accounts?end=a1",
        "/suppressions",
    ),
)


@dataclass
class Console:
    room: Room
    url: str
    browser: Browser

    def seat(self, name: str, path: str, width: int = 1440, scheme: str = "light") -> Page:
        given = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        page = self.browser.new_context(**given).new_page()  # type: ignore[arg-type]
        page.goto(f"{self.url}/login?next={path}")
        page.fill("#user", name)
        page.fill("#password", PASSWORD)
        page.press("#password", "Enter")
        page.wait_for_url(self.url + path)
        return page


@pytest.fixture(scope="module")
def console(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with working(tmp_path_factory.mktemp("rules")) as at, serving(at.app) as url:
        at.user("all.roles", "analyst", "approver", "operator")
        yield Console(at, url, browser)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)])
def test_axe_finds_nothing_and_nothing_is_too_wide(console: Console, axe: str, scheme: str, width: int) -> None:
    page = console.seat("all.roles", "/profile", width, scheme)
    for path in PAGES:
        page.goto(console.url + path)
        assert faults(page, axe) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.locator("h1").count() == 1, path
    page.context.close()


def test_a_rule_is_written_proven_approved_by_another_and_published(console: Console, axe: str) -> None:
    ines = console.seat("ines.vale", "/rules/large_payment")
    ines.keyboard.press("e")
    ines.wait_for_url("**/rules/large_payment/1/edit")
    expect(ines.get_by_text("There is no proof of exactly this text")).to_be_visible()
    expect(ines.get_by_role("button", name="Ask for approval")).to_have_count(0)
    area = ines.get_by_role("textbox", name="Text of the rule")
    text = ines.locator("#text").input_value()
    area.focus()
    ines.keyboard.press("Control+a")
    ines.keyboard.insert_text(text.replace("amount_cents, operator", "amount_sents, operator"))
    expect(ines.locator("#checked")).to_contain_text("line 7, [0].conditions[0].field")
    expect(ines.locator("#checked")).to_contain_text("Not a rule yet.")
    expect(ines.locator("#code .cm-lintRange-error")).to_have_text(re.compile("amount_sents"))  # at its line
    assert faults(ines, axe) == []
    ines.keyboard.press("Escape")
    ines.keyboard.press("Tab")
    expect(area).not_to_be_focused()  # no trap
    ines.locator("#checked a").first.click()
    expect(area).to_be_focused()
    ines.keyboard.press("Control+a")
    ines.keyboard.insert_text(text.replace("value: 100000", "value: 80000"))
    expect(ines.locator("#caption")).to_contain_text("amount_cents > 80000")
    ines.keyboard.press("Control+Enter")
    expect(ines.locator("#trial")).to_contain_text("Proof", timeout=WAIT_MS)
    assert faults(ines, axe) == []
    ines.reload()  # the server says which actions are possible now
    ines.get_by_role("button", name="Ask for approval").press("Enter")
    ines.wait_for_url("**/approvals/1")
    expect(ines.get_by_text("needs the scope rules:approve")).to_be_visible()
    oda = console.seat("oda.lind", "/approvals/1")
    assert faults(oda, axe) == []
    oda.get_by_role("link", name="Approve…").press("Enter")
    expect(oda.get_by_text("Version 2 replaces version 1 for all records from now on.")).to_be_visible()
    oda.get_by_role("button", name="Publish version 2").press("Enter")
    expect(oda.get_by_text("Version 2 of large_payment is published")).to_be_visible()
    assert "value: 80000" in Path(console.room.folder / "rules/large_payment.yaml").read_text()
    for page in (ines, oda):
        page.context.close()


def test_form_and_slider_change_the_text_and_what_it_says(console: Console, axe: str) -> None:
    ines = console.seat("ines.vale", "/rules/card_testing/1/edit?view=form")
    text = ines.locator("#text")
    ines.get_by_label("aggregation threshold").fill("4")
    expect(ines.locator("#caption")).to_contain_text("is >= 4")
    expect(text).to_have_value(re.compile(r"aggregation_threshold: 4   # the operator"))
    ines.get_by_role("button", name="YAML").click()
    ines.get_by_role("button", name="Try other thresholds").click()
    expect(ines.locator("#slid")).to_contain_text("4: ", timeout=WAIT_MS)
    assert faults(ines, axe) == []
    ines.locator("h1").click()
    ines.keyboard.press("]")
    expect(ines.locator("#slid")).to_contain_text("5: ")
    expect(ines.locator("#caption")).to_contain_text("is >= 5")
    expect(ines.locator("#code")).to_contain_text("aggregation_threshold: 5")
    ines.get_by_label("Threshold", exact=True).press("Home")
    expect(ines.locator("#caption")).to_contain_text("is >= 1")
    ines.keyboard.press("Control+s")
    expect(ines.get_by_text("The draft is saved.")).to_be_visible()
    expect(text).to_have_value(re.compile(r"aggregation_threshold: 1   # the operator"))
    ines.context.close()
