"""The pictures of the documentation: ``PYTHONPATH=tests python -m tests.browser.pictures [FOLDER]``; ``docs/pictures``.

It needs a browser (``tools/setup.py browser``). Other folders get every page in every size, to look at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, expect, sync_playwright

from unit.serve.console.cards import cards
from unit.serve.console.kit import PASSWORD, room

from .finding import FLAGS, find_browser
from .serving import serving

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
MULE = "/cases/C-1?view=open"
DESK, PHONE = (1440, 900), (390, 844)
IN_DOCS = {
    "queue": ("/queue?view=open", DESK, "light"),
    "case": (MULE, DESK, "light"),
    "case-dark": (MULE, DESK, "dark"),
}
OTHERS = {
    "queue-dark": ("/queue?view=open", DESK, "dark"),
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
            for name, (path, size, scheme) in wanted.items():
                taken(browser, url, path, size, scheme, folder / f"{name}.png")
            browser.close()


def taken(browser: Browser, url: str, path: str, size: tuple[int, int], scheme: str, to: Path) -> None:
    """One picture, once all of the page has come."""
    viewport: dict[str, int] = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]  # it is typed closely
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("#user", "ines.vale")
    page.fill("#password", PASSWORD)
    page.press("#password", "Enter")
    page.wait_for_url("**/queue*")
    page.goto(url + path)
    whole(page)
    page.screenshot(path=to)
    context.close()


def whole(page: Page) -> None:
    """Wait until nothing is asked for any more."""
    expect(page.locator(".sk")).to_have_count(0, timeout=120_000)
    expect(page.locator("#changes[hx-get]")).to_have_count(0, timeout=120_000)
    page.evaluate("document.fonts.ready")


if __name__ == "__main__":
    main()
