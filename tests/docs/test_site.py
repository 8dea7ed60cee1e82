"""The site as `make docs` builds it: strict, whole, and without anything that another host would have to send."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tools.docs.hook import GENERATED, PLACES

from .pages import ROOT

LOADS = {"script": "src", "link": "href", "img": "src", "source": "srcset", "iframe": "src", "video": "src"}


class Parts(HTMLParser):
    """What a page loads, what it links to, and the anchors that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        # A canonical address would be a link of `rel` that loads nothing; the site has none, as it has no address.
        if tag in LOADS and LOADS[tag] in has:
            self.loads.append(has[LOADS[tag]])
        if tag == "a" and "href" in has:
            self.links.append(has["href"])


@pytest.fixture(scope="module")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(built_site: Path) -> dict[Path, Parts]:
    return {path: Parts(path) for path in sorted(built_site.rglob("*.html"))}


def test_every_page_of_the_repository_is_there(built_site: Path, pages: dict[Path, Parts]) -> None:
    docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    wanted = {name.removesuffix(".md") + ".html" for name in (*docs, *PLACES.values(), *GENERATED)}
    assert {str(path.relative_to(built_site)) for path in pages} == {*wanted, "404.html"}


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Parts]) -> None:
    found = [(path.name, each) for path, parts in pages.items() for each in parts.loads]
    assert len(found) > len(pages)
    assert [each for each in found if urlsplit(each[1]).netloc] == []


def test_nor_by_a_style(built_site: Path) -> None:
    styles = [path.read_text(encoding="utf-8") for path in built_site.rglob("*.css")]
    loaded = [
        each for text in styles for each in re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", text)
    ]
    addresses = [first or second for first, second in loaded]
    assert any(each.endswith("inter-400.woff2") for each in addresses)
    assert [each for each in addresses if urlsplit(each).netloc] == []


def test_links_pictures_and_anchors_lead_somewhere(built_site: Path, pages: dict[Path, Parts]) -> None:
    dead = []
    for path, parts in pages.items():
        for target in (*parts.loads, *parts.links):
            link = urlsplit(target)
            if link.scheme or link.netloc or path.name == "404.html":
                continue
            there = path if not link.path else (path.parent / unquote(link.path)).resolve()
            known = pages[there].anchors if there in pages and link.fragment else {link.fragment}
            if not there.is_file() or link.fragment not in known:
                dead.append(f"{path.relative_to(built_site)}: {target}")
    assert dead == []


def test_the_search_knows_tutorial_and_reference_without_a_server(built_site: Path) -> None:
    """The index is a script, which pages that are opened as files load."""
    text = (built_site / "search" / "search_index.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("var __index = "))
    found = {each["location"]: each["text"] for each in index["docs"]}
    assert "guessed_password" in found["tutorial.html#2-a-rule"]
    assert "commands.html#crossline-backtest" in found
    assert "python-api.html#crossline.detect" in found
