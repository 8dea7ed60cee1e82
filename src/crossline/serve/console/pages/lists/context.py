"""What the pages of lists show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class ListRow:
    """A list. ``ending``: entries that end within a week; ``has``: whether the entry that is looked for is in it."""

    name: str
    address: str
    entries: int
    ending: int
    rules: tuple[str, ...]
    has: bool


@dataclass(frozen=True, slots=True)
class ListsPage:
    """``entry``: the value that is looked for. ``where``: where the lists come from."""

    TEMPLATE: ClassVar[str] = "pages/lists/lists.html"
    shell: Shell
    rows: tuple[ListRow, ...]
    entry: str
    where: str


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry. ``until``: None: without an end; ``etag``: of what was looked at; ``over``: it has ended."""

    value: str
    until: Moment | None
    etag: str
    over: bool


@dataclass(frozen=True, slots=True)
class ListPage:
    """``total``: entries in all, of which ``rows`` match. ``why_not``: why who looks cannot change it; empty: he can.

    ``ending``: the entry that is about to be ended.
    """

    TEMPLATE: ClassVar[str] = "pages/lists/list.html"
    shell: Shell
    name: str
    address: str
    rows: tuple[EntryRow, ...]
    total: int
    matching: int
    rules: tuple[str, ...]
    text: str
    value: str
    until: str
    reason: str
    ending: EntryRow | None
    why_not: str
    wrong: str
