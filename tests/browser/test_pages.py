"""The console in a browser: every page for axe, in light and dark; by keyboard alone; narrow; without script."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import Opened, Watched

pytestmark = pytest.mark.xdist_group("browser")
PAGES = ("/audit", "/people", "/people?user=ines.vale", "/profile", "/objectives/payments")
# Of what differs by size and colour alone: in the others axe looks at this, not at all that it knows.
BY_LOOK = ["color-contrast", "target-size", "scrollable-region-focusable"]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


# Only what is wrong comes back, without paths to it: on a long page writing down all that is right took longer.
RUN = """only => axe.run(document, {runOnly: only, resultTypes: ["violations"], selectors: false}).then(
    found => [found.passes.length, found.violations.flatMap(
        each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 160)}`))])"""


def faults(page: Page, axe: str) -> list[str]:
    """What axe finds. It is evaluated, not put into the page, whose policy would refuse it."""
    page.evaluate(axe)
    passes, found = _run(page, TAGS)
    assert passes > 10
    return found


def looked_at(page: Page) -> list[str]:
    """What axe, which is in the page already, finds of that which differs by size and colour."""
    return _run(page, {"type": "rule", "values": BY_LOOK})[1]


def _run(page: Page, only: Any) -> tuple[int, list[str]]:
    """How many rules found nothing wrong, and what the others found."""
    passes, found = page.evaluate(RUN, only)
    return passes, found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Opened, axe: str, scheme: str) -> None:
    at = opened(scheme=scheme)
    at.expected = {404}
    at.page.goto(f"{at.site.url}/login")
    assert faults(at.page, axe) == []
    at.log_in("olga.ops")
    for path in (*PAGES, "/nothing"):
        at.page.goto(at.site.url + path)
        assert faults(at.page, axe) == [], path
        assert at.page.locator("h1").count() == 1, path
    for path in ("/components", "/decisions"):
        at.page.goto(at.site.open_url + path)
        assert faults(at.page, axe) == [], path
    at.page.keyboard.press("?")
    assert faults(at.page, axe) == []


def test_a_phone_sees_all(opened: Opened, axe: str) -> None:
    at = opened(width=390, height=844)
    at.log_in("olga.ops")
    for path in PAGES:
        at.page.goto(at.site.url + path)
        assert at.page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert faults(at.page, axe) == [], path
    at.page.set_viewport_size({"width": 320, "height": 640})
    assert at.page.evaluate("document.documentElement.scrollWidth") <= 320


def tab_to(page: Page, name: str) -> None:
    """Tab until what is focused is called so."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if " ".join(page.evaluate("document.activeElement.textContent").split()) == name:
            return
    pytest.fail(f"nothing called {name} gets the focus")


def test_everything_works_by_keyboard(opened: Opened) -> None:
    at = opened()
    page = at.page
    page.goto(f"{at.site.url}/people")
    expect(page.locator("#user")).to_be_focused()
    page.keyboard.type("olga.ops")
    page.keyboard.press("Tab")
    page.keyboard.type("correct horse battery")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{at.site.url}/people")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, "Change tomas.brandt")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{at.site.url}/people?user=tomas.brandt")
    tab_to(page, "Disable tomas.brandt")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_text("tomas.brandt is disabled and logged out everywhere.")).to_be_visible()
    page.keyboard.press("z")  # undo
    expect(page.get_by_text("tomas.brandt may log in again.")).to_be_visible()


def test_the_sheet_of_keys_opens_filters_and_gives_the_focus_back(opened: Opened) -> None:
    at = opened()
    at.log_in("olga.ops", "/audit")
    page = at.page
    page.locator("#keys-open").focus()
    page.keyboard.press("?")
    expect(page.locator("#keys-filter")).to_be_focused()
    page.keyboard.type("undo")
    expect(page.locator("#keys li:visible")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator("#keys-open")).to_be_focused()
    page.keyboard.press("f")
    expect(page.locator("[name=who]")).to_be_focused()
    page.keyboard.type("?")  # in a field it is a letter
    expect(page.locator("#keys")).to_be_hidden()


def test_single_keys_are_off_where_the_profile_says_so(opened: Opened) -> None:
    at = opened()
    at.log_in("tomas.brandt")
    page = at.page
    page.get_by_label("off: for voice control and switches").check()
    page.select_option("#f-theme", "dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"  # as it is chosen
    page.get_by_role("button", name="Keep the profile").click()
    expect(page.get_by_text("The profile is kept.")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_hidden()


def test_pages_work_without_script(opened: Opened) -> None:
    at = opened(java_script_enabled=False)
    at.log_in("ines.vale")
    at.page.select_option("#f-density", "compact")
    at.page.get_by_role("button", name="Keep the profile").click()
    assert at.page.locator("html").get_attribute("data-density") == "compact"
    at.page.get_by_role("button", name="Log out here").click()
    at.page.wait_for_url("**/login")


def test_a_wrong_password_is_reported_where_it_happened(opened: Opened) -> None:
    at = opened()
    at.expected = {422}
    page = at.page
    page.goto(f"{at.site.url}/login")
    page.fill("#user", "nobody.here")
    page.fill("#password", "wrong password")
    page.press("#password", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("4 tries are left, then you wait 15 minutes.")
    expect(page.locator("#password")).to_be_focused()
    assert page.title() == "Log in · crossline"


def inserted(at: Watched, html: str) -> None:
    """Somebody got markup into a page."""
    at.page.evaluate("html => document.querySelector('main').insertAdjacentHTML('beforeend', html)", html)


def test_markup_injected_into_a_page_runs_nothing(opened: Opened) -> None:
    at = opened()
    at.log_in("olga.ops")
    blocked: list[str] = []
    at.page.on("console", lambda message: blocked.append(message.text))
    inserted(at, '<img src=x onerror="window.got = 1"><p style="position:fixed">x</p>')
    inserted(at, "<button id=evil hx-post=/logout hx-trigger=load>x</button>")
    at.page.evaluate("htmx.process(document.querySelector('main'))")
    at.page.wait_for_function("!document.querySelector('#evil').hasAttribute('hx-post')")
    assert at.page.evaluate("window.got") is None
    assert at.page.evaluate("getComputedStyle(document.querySelector('main p[style]')).position") == "static"
    assert any("Content Security Policy" in each for each in blocked)
    assert any("hx-csp" in each for each in blocked)
    at.page.goto(f"{at.site.url}/profile")
    assert at.page.url.endswith("/profile")  # still logged in
    at.errors.clear()
