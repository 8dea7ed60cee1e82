"""One browser and one server for all tests here; each test has a context of its own, which is as a fresh profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from unit.serve.console.kit import PASSWORD, Room, room

from .finding import FLAGS, find_browser
from .serving import serving


@dataclass
class Site:
    """Two consoles: one with users, one that is open. ``room``: the stores of the first, where they are ours."""

    room: Room | None
    url: str
    open_url: str


@dataclass
class Watched:
    """A page, and what its browser complained of: errors, and requests that left the origin."""

    page: Page
    site: Site
    errors: list[str] = field(default_factory=list)
    strayed: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)

    def log_in(self, name: str, path: str = "/profile") -> None:
        self.page.goto(self.site.url + path)
        self.page.fill("#user", name)
        self.page.fill("#password", PASSWORD)
        self.page.press("#password", "Enter")
        self.page.wait_for_url(self.site.url + path)


# While it lives its event loop runs in this thread, and no other test could run one: so it ends with these tests.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = find_browser()
    if found is None:
        pytest.skip("found no chromium and no chrome; tools/setup.py browser installs one on Debian, as root")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with room(tmp_path_factory.mktemp("closed")) as closed, room(tmp_path_factory.mktemp("open"), open_=True) as opened:
        closed.user("olga.ops", "operator")
        closed.user("ines.vale", "analyst")
        closed.user("tomas.brandt", "viewer", "approver")
        with serving(closed.app) as url, serving(opened.app) as open_url:
            yield Site(closed, url, open_url)


Opened = Callable[..., Watched]


@pytest.fixture
def opened(browser: Browser, site: Site) -> Iterator[Opened]:
    """Opens pages; at the end none of them may have complained, or asked anybody else."""
    with watching(browser, site) as opener:
        yield opener


@contextmanager
def watching(browser: Browser, site: Site) -> Iterator[Opened]:
    """Opens pages of a site; at the end none of them may have complained, or asked anybody else."""
    made: list[Watched] = []

    def open_page(width: int = 1440, height: int = 900, scheme: str = "light", **more: object) -> Watched:
        given = {"viewport": {"width": width, "height": height}, "color_scheme": scheme, **more}
        page = browser.new_context(**given).new_page()  # type: ignore[arg-type]
        watched = Watched(page, site)
        hosts = {urlsplit(site.url).netloc, urlsplit(site.open_url).netloc}

        def note_error(text: str) -> None:
            if not any(f"status of {status} " in text for status in watched.expected):
                watched.errors.append(text)

        page.on("console", lambda message: note_error(message.text) if message.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: note_error(str(error)))
        page.on(
            "request",
            lambda asked: watched.strayed.append(asked.url) if urlsplit(asked.url).netloc not in hosts else None,
        )
        made.append(watched)
        return watched

    yield open_page
    for each in made:
        each.page.context.close()
    assert [each.errors for each in made if each.errors] == []
    assert [each.strayed for each in made if each.strayed] == []


@pytest.fixture(scope="session")
def axe() -> str:
    return (Path(__file__).parent / "vendor" / "axe.js").read_text()
