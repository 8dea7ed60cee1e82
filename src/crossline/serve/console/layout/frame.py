"""Makes the shell of a page: the lines that who looks may see, counts, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crossline.serve.console.layout.shell import (
    GLOBAL_KEYS,
    SEARCH_KEY,
    Crumb,
    NavGroup,
    NavLine,
    Shell,
    ShortcutKey,
    Who,
    initials,
)
from crossline.serve.console.pages.page import Page
from crossline.serve.console.request import PageRequest

GROUPS = ("Work", "Rules", "Operations")
TABS_MAX = 4
SEARCH = "/search"


@dataclass(frozen=True, slots=True)
class Frame:
    """Of all pages that this server has, in the order of the rail."""

    pages: Sequence[Page]
    assets: str

    def __call__(
        self,
        asked: PageRequest,
        title: str,
        crumbs: tuple[Crumb, ...],
        keys: tuple[ShortcutKey, ...],
        scripts: tuple[str, ...],
    ) -> Shell:
        """The shell for who asks."""
        seen = self.seen_by(asked)
        tabs = [each for each in seen if each.tab] + [each for each in seen if not each.tab]
        search = any(each.path == SEARCH and each.ways[0].need.met(asked.who, None) for each in self.pages)
        go = tuple(ShortcutKey(("g", each.label[0].lower()), each.label) for each in seen if each.tab)
        return Shell(
            title=title,
            crumbs=crumbs,
            groups=self._groups(asked, seen),
            tabs=tuple(_line(asked, each) for each in tabs[:TABS_MAX]),
            who=Who(asked.who.name, initials(asked.who.name), ", ".join(asked.roles), asked.who.kind == "open"),
            preferred=asked.preferred,
            pipeline=asked.parts.deps.config.name,
            assets=self.assets,
            token=asked.token,
            nonce=asked.nonce,
            live=asked.allows("read:alerts") and asked.parts.deps.events is not None,
            search=search,
            keys=(*keys, *go, *(each for each in GLOBAL_KEYS if each is not SEARCH_KEY or search)),
            scripts=scripts,
            toast=asked.toast,
        )

    def seen_by(self, asked: PageRequest) -> list[Page]:
        """The pages of the rail that who asks may see."""
        return [each for each in self.pages if each.group is not None and each.ways[0].need.met(asked.who, None)]

    def _groups(self, asked: PageRequest, seen: Sequence[Page]) -> tuple[NavGroup, ...]:
        made = []
        for label in GROUPS:
            lines = tuple(line for each in seen if each.group == label for line in _lines(asked, each))
            if lines:
                made.append(NavGroup(label, lines))
        return tuple(made)


def _lines(asked: PageRequest, page: Page) -> tuple[NavLine, ...]:
    """The line of a page, and those beneath it: of several that fit the address, only the closest is current."""
    beneath = page.more(asked) if page.more is not None else ()
    first = _line(asked, page, counted=True)
    return (replace(first, current=first.current and not any(each.current for each in beneath)), *beneath)


def _line(asked: PageRequest, page: Page, *, counted: bool = False) -> NavLine:
    count = page.count(asked) if counted and page.count is not None else None
    path = asked.request.url.path
    current = path == page.path or path.startswith(f"{page.path}/")
    return NavLine(page.label, page.path, current, "" if not count else f"{count:,}" if count <= 10_000 else "10,000+")
