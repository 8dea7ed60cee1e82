"""From the log-in to a label that counts, with a pipeline that runs.

A rule is written, proven, approved by a second person and published; its first live alert comes to the open queue by
itself; the case is resolved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from .accessibility_tree import accessibility_faults
from .conftest import Opened, Site, Watched, watching
from .test_pages import faults, looked_at
from .walking import MULE, Walk, transfer, walking

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("browser")]
WAIT_MS = 120_000  # for what a pipeline and a process of its own do, where other tests run
RULE = "payee_many_senders"
SIZES = ((1440, 900), (720, 900), (375, 800))


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    with walking(tmp_path_factory.mktemp("walk")) as found:
        yield found


@pytest.fixture
def people(browser: Browser, walk: Walk) -> Iterator[Opened]:
    """Opens a browser for a user; at the end none may have logged an error, or sent a request elsewhere."""
    with watching(browser, Site(None, walk.url, walk.url)) as opened:
        yield opened


def seat(people: Opened, name: str, path: str, **more: object) -> Watched:
    at = people(**more)
    at.log_in(name, path)
    return at


def beside(at: Watched, path: str) -> Page:
    """Another tab of the same person."""
    page = at.page.context.new_page()
    page.goto(at.site.url + path)
    return page


def focused(page: Page) -> str | None:
    return page.locator("#cases .case.on").get_attribute("data-case")


def go(page: Page, letter: str, path: str) -> None:
    """By the keys `g` and a letter."""
    page.keyboard.press("g")
    page.keyboard.press(letter)
    page.wait_for_url(f"**{path}*")


def test_from_the_log_in_to_a_label_that_counts(people: Opened, walk: Walk) -> None:
    at = people()
    queue = at.page
    queue.goto(f"{walk.url}/queue?view=open")
    expect(queue.locator("#user")).to_be_focused()
    queue.keyboard.type("ines.vale")
    queue.keyboard.press("Tab")
    queue.keyboard.type("correct horse battery")
    queue.keyboard.press("Enter")
    queue.wait_for_url("**/queue?view=open")
    expect(queue.locator("#live")).to_have_text("Live", timeout=WAIT_MS)
    if queue.locator("#cases").count() == 0:  # the past is judged at this moment
        expect(queue.locator("#news")).to_contain_text("new case", timeout=WAIT_MS)
        queue.keyboard.press(".")
    expect(queue.locator("#cases .case")).to_have_count(1)
    large = focused(queue)

    _written_and_proven(beside(at, "/rules"))
    _published(seat(people, "oda.lind", "/approvals").page)
    _live(walk, beside(at, "/rules"))

    expect(queue.locator("#news")).to_contain_text("1 new case above", timeout=WAIT_MS)
    assert (focused(queue), queue.locator("#cases .case").count()) == (large, 1)  # nothing moved
    queue.keyboard.press(".")
    queue.wait_for_url("**seen=*")
    expect(queue.locator("#cases .case")).to_have_count(2)
    fresh = queue.locator("#cases .fresh-row")
    expect(fresh).to_contain_text("4 accounts sent money to shelf in 15 min")

    _resolved_by_keys(queue, str(fresh.get_attribute("data-case")))
    queue.goto(f"{walk.url}/rules/{RULE}")
    expect(queue.locator(".stats")).to_contain_text("1 label, 1 of fraud")
    expect(queue.locator(".stats")).to_contain_text("Predicted")


def _written_and_proven(page: Page) -> None:
    """The rule, by keys alone but for the text, which is put in at once."""
    page.keyboard.press("n")
    page.wait_for_url("**/rules/new")
    text = page.get_by_role("textbox", name="Text of the rule")
    text.focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(MULE.replace("group_by: payee", "group_by: payer"))
    expect(page.locator("#checked")).to_contain_text("payer")
    expect(page.locator("#checked")).to_contain_text("Not a rule yet.")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(MULE)
    expect(page.locator("#checked")).to_contain_text("Valid.")
    page.keyboard.press("Control+Enter")
    trial = page.locator("#trial")
    expect(trial).to_contain_text("Proof", timeout=WAIT_MS)
    expect(trial).to_contain_text("3 appear")  # a mule a day
    page.get_by_role("button", name="Ask for approval").press("Enter")
    page.wait_for_url("**/approvals/1")
    expect(page.get_by_role("link", name="Approve…")).to_have_count(0)
    page.close()


def _published(page: Page) -> None:
    """The second person finds it in the queue, reads what it would have done, and publishes it."""
    page.get_by_role("link", name=RULE).press("Enter")
    page.wait_for_url("**/approvals/1")
    expect(page.locator(".split")).to_contain_text("3 appear")
    page.get_by_role("link", name="Approve…").press("Enter")
    page.get_by_role("button", name="Publish version 1").press("Enter")
    expect(page.get_by_text(f"Version 1 of {RULE} is published")).to_be_visible()


def _live(walk: Walk, page: Page) -> None:
    """Once the page of the rule says that the pipeline has taken it up, four accounts pay one payee."""
    ends_s = time.monotonic() + WAIT_MS / 1_000
    while page.locator("#history li").count() == 0:
        assert time.monotonic() < ends_s, "no pipeline has taken it up"
        page.goto(f"{walk.url}/rules/{RULE}")
    expect(page.locator("#history")).to_contain_text("ines.vale, approved by oda.lind")
    now_ms = time.time_ns() // 1_000_000
    walk.give("live", [transfer(1_000 + number, now_ms - 5_000 + number, "shelf") for number in range(4)])
    page.close()


def _resolved_by_keys(page: Page, number: str) -> None:
    while focused(page) != number:
        page.keyboard.press("k")
    page.keyboard.press("o")
    page.wait_for_url(f"**/cases/{number}*")
    expect(page.locator("#records tbody tr")).to_have_count(4, timeout=WAIT_MS)
    expect(page.locator("#changes")).to_contain_text("Threshold of", timeout=WAIT_MS)
    page.keyboard.press("a")
    expect(page.get_by_text(f"{number} assigned to you.")).to_be_visible()
    page.keyboard.press("r")
    expect(page.locator("#ask")).to_contain_text("Resolve 1 case")
    page.get_by_role("button", name="Resolve", exact=True).press("Enter")
    expect(page.get_by_text(f"{number} resolved as fraud.")).to_be_visible()


def test_the_keys_of_queue_and_case(people: Opened, walk: Walk) -> None:
    page = seat(people, "ines.vale", "/queue?view=open").page
    expect(page.locator("#cases .case")).not_to_have_count(0)
    number = focused(page)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_contain_text("1 selected")
    page.keyboard.press("s")
    expect(page.locator("#ask")).to_contain_text("Snooze 1 case")
    page.get_by_role("button", name="Snooze", exact=True).press("Enter")
    expect(page.get_by_text(f"{number} snoozed.")).to_be_visible()
    expect(page.locator(f'#cases [data-case="{number}"]')).to_have_count(0)
    page.keyboard.press("z")
    expect(page.get_by_text("Undone for 1 case.")).to_be_visible()
    expect(page.locator(f'#cases [data-case="{number}"]')).to_have_count(1)
    page.keyboard.press("o")
    page.wait_for_url(f"**/cases/{number}*")
    page.keyboard.press("e")
    expect(page.get_by_label("To")).to_be_focused()
    page.keyboard.type("oda.lind")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{number} escalated to oda.lind.")).to_be_visible()
    page.keyboard.press("z")
    expect(page.get_by_text("Undone for 1 case.")).to_be_visible()
    go(page, "q", "/queue")


def test_every_page_at_every_width_light_and_dark(people: Opened, walk: Walk, axe: str) -> None:
    at = seat(people, "all.roles", "/profile", reduced_motion="reduce")
    page = at.page
    for path in (*_pages(), "/profile"):
        page.goto(walk.url + path)
        expect(page.locator(".sk")).to_have_count(0, timeout=WAIT_MS)
        found = [*faults(page, axe), *accessibility_faults(page)]
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                found += looked_at(page)
        assert found == [], path
        assert page.locator("h1").count() == 1, path


def _pages() -> tuple[str, ...]:
    return (
        *("/queue?view=open", "/queue?view=all&severity=critical", "/cases/C-1", "/cases/C-1?ask=hold", "/views"),
        *("/decisions", "/entities", "/entities/payee/shelf", "/entities/payee/shelf?act=hold", "/rules"),
        *(f"/rules/{RULE}", "/rules/new", f"/rules/{RULE}/1/edit", "/approvals", "/approvals/1", "/lists"),
        *("/suppressions", "/audit", "/people", "/search?q=shelf", "/links/payee/shelf", "/dead-letters"),
        *("/health/transfers", "/health/transfers/pipeline", "/objectives/transfers"),
    )
