"""The pictures of the documentation: ``PYTHONPATH=tests python -m tests.browser.pictures [FOLDER]``; ``docs/pictures``.

It needs a browser (``tools/setup.py browser``). Other folders get every page in every size, to look at.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from unit.serve.console.cards import cards
from unit.serve.console.kit import PASSWORD, room

from .finding import FLAGS, find_browser
from .serving import serving

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
MULE = "/cases/C-1?view=open"
EDITOR = "/rules/beneficiary_many_senders/1/edit"
Scheme = Literal["light", "dark"]
Shot = tuple[str, tuple[int, int], Scheme]
SCHEMES: tuple[tuple[str, Scheme], ...] = (("", "light"), ("-dark", "dark"))
DESK, PHONE = (1440, 900), (390, 844)
IN_DOCS: dict[str, Shot] = {
    f"{name}{suffix}": (path, DESK, scheme)
    for name, path in (("queue", "/queue?view=open"), ("case", MULE), ("editor", EDITOR))
    for suffix, scheme in SCHEMES
}
OTHERS: dict[str, Shot] = {
    "queue-narrow": ("/queue?view=open", PHONE, "light"),
    "queue-1100": ("/queue?view=open", (1100, 800), "light"),
    "queue-720": ("/queue?view=open", (720, 800), "light"),
    "queue-asked": ("/queue?view=open&severity=high&ask=resolve&case=C-2&case=C-6", DESK, "light"),
    "queue-empty": ("/queue?view=open&severity=high&q=nothing", DESK, "light"),
    "case-narrow": (MULE, PHONE, "light"),
    "case-1100": (MULE, (1100, 800), "light"),
    "case-hold": (f"{MULE}&ask=hold", DESK, "light"),
    "case-travel": ("/cases/C-5?view=open", DESK, "light"),
    "case-many": ("/cases/C-2?view=open", DESK, "light"),
    "views": ("/views?view=open&severity=high", DESK, "light"),
}


def main() -> None:
    """Take them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    wanted = IN_DOCS if folder == DOCS else {**IN_DOCS, **OTHERS}
    browser_path = find_browser()
    if browser_path is None:
        sys.exit("found no chromium and no chrome; tools/setup.py browser installs one on Debian, as root")
    with TemporaryDirectory() as made, room(Path(made), project=cards()) as shown, serving(shown.app) as url:
        shown.user("ines.vale", "analyst")
        shown.user("tomas.brandt", "analyst")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
            take(browser, url, wanted, folder)
            browser.close()


def take(browser: Browser, url: str, wanted: Mapping[str, Shot], folder: Path) -> None:
    """The pictures of a console, each in its file, once all of its page has come; by one who is logged in."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("#user", "ines.vale")
    page.fill("#password", PASSWORD)
    page.press("#password", "Enter")
    page.wait_for_url("**/queue*")
    for name, (path, (width, height), scheme) in wanted.items():
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.goto(url + path)
        whole(page)
        page.screenshot(path=folder / f"{name}.png")
    context.close()


def whole(page: Page) -> None:
    """Wait until nothing is asked for any more."""
    expect(page.locator(".sk")).to_have_count(0, timeout=120_000)
    expect(page.locator("#changes[hx-get]")).to_have_count(0, timeout=120_000)
    page.evaluate("document.fonts.ready")


if __name__ == "__main__":
    main()
