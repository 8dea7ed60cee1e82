"""Objectives and the health of the pipeline in a browser: full and empty, for axe, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from unit.observe.run_health.kit import run
from unit.serve.console.kit import PASSWORD
from unit.serve.console.pages.test_objectives import promised
from unit.serve.console.pages.working import working
from unit.serve.http.kit import NOW_MS

from .serving import serving
from .test_pages import faults

pytestmark = pytest.mark.xdist_group("browser")
PAGES = ("/objectives/payments", "/health/payments/pipeline")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Of a pipeline with objectives, whose sink is held, and of one that promises nothing and does not run."""
    with (
        run("payments", NOW_MS / 1000, held=True) as watch,
        promised(tmp_path_factory.mktemp("full"), watch) as (full, _),
        working(tmp_path_factory.mktemp("empty")) as empty,
        serving(full.app) as full_url,
        serving(empty.app) as empty_url,
    ):
        yield full_url, empty_url


def opened(browser: Browser, url: str, width: int, scheme: str) -> Page:
    given = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    page = browser.new_context(**given).new_page()  # type: ignore[arg-type]  # it is typed closely
    page.goto(f"{url}/login?next={PAGES[0]}")
    page.fill("#user", "vera.lux")
    page.fill("#password", PASSWORD)
    page.press("#password", "Enter")
    page.wait_for_url(url + PAGES[0])
    return page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)])
def test_axe_finds_nothing_and_nothing_is_cut(
    browser: Browser, urls: tuple[str, str], axe: str, scheme: str, width: int
) -> None:
    for url in urls:
        page = opened(browser, url, width, scheme)
        for path in PAGES:
            page.goto(url + path)
            assert faults(page, axe) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.locator("h1").count() == 1, path
        page.context.close()


def test_a_missed_promise_leads_to_the_pipeline(browser: Browser, urls: tuple[str, str]) -> None:
    page = opened(browser, urls[0], 1440, "light")
    expect(page.get_by_text("its budget burns 40 times as fast as it may")).to_be_visible()
    page.get_by_role("link", name="Health of the pipeline").click()
    page.wait_for_url(urls[0] + PAGES[1])
    expect(page.get_by_role("heading", name="Pipeline payments")).to_be_visible()
    expect(page.get_by_text("sink kafka has not accepted the batch")).to_be_visible()
    page.context.close()
