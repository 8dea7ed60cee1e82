"""Health in a browser: found by the rail or the bar, nothing for axe to find, nothing too wide, rules a link away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from unit.serve.console.kit import PASSWORD
from unit.serve.console.pages.working import working
from unit.serve.health.scene import DAY_MS, alerts_of, label, publish, take

from .serving import serving
from .test_pages import faults

pytestmark = pytest.mark.xdist_group("browser")
DAYS = 20


@dataclass
class Console:
    url: str
    browser: Browser

    def seat(self, width: int, scheme: str) -> Page:
        given = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        page = self.browser.new_context(**given).new_page()  # type: ignore[arg-type]
        page.goto(f"{self.url}/login?next=/profile")
        page.fill("#user", "ines.vale")
        page.fill("#password", PASSWORD)
        page.press("#password", "Enter")
        page.wait_for_url(f"{self.url}/profile")
        return page


@pytest.fixture(scope="module")
def console(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with working(tmp_path_factory.mktemp("health")) as at, serving(at.app) as url:
        at.clock.now_ms += DAYS * DAY_MS
        now_ms, path = at.clock.now_ms, at.folder.parent / "serve"
        publish(path, "spending", now_ms - 5 * DAY_MS, {"per_day": 9.0, "low": 6.0, "high": 12.0, "days": 50.0})
        flood = alerts_of("large_payment", [4] * DAYS + [40], now_ms)
        both = [{**each, "alert_id": f"b-{each['alert_id']}", "rule_id": "card_testing"} for each in flood[-20:]]
        steady = alerts_of("spending", [2] * DAYS + [1], now_ms, kind="shadow")
        take(path, now_ms, [*flood, *both, *steady])
        label(path, now_ms - DAY_MS, {each["record_id"]: place % 3 > 0 for place, each in enumerate(flood[:60])})
        yield Console(url, browser)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)])
def test_health_is_found_read_and_left(console: Console, axe: str, scheme: str, width: int) -> None:
    page = console.seat(width, scheme)
    page.locator(".side a, .tabbar a").filter(has_text="Health", visible=True).press("Enter")
    page.wait_for_url("**/health/payments")
    expect(page.get_by_text("3 need you")).to_be_visible()
    expect(page.locator("#rules")).to_contain_text("Floods, 10")
    expect(page.locator("#predictions")).to_contain_text("alerts a day")
    expect(page.locator("#overlap")).to_contain_text("large_payment")
    assert faults(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").count() == 1
    page.get_by_role("link", name="24 h", exact=True).press("Enter")
    expect(page.get_by_role("img", name="Alerts an hour over 24 hours, 42 in all")).to_be_visible()
    assert faults(page, axe) == []
    page.locator("#rules").get_by_role("link", name="spending").press("Enter")
    page.wait_for_url("**/rules/spending")
    expect(page.get_by_text("alerts a day: 2, predicted 7.5 to 10.5")).to_be_visible()
    assert faults(page, axe) == []
    page.context.close()
