"""What a page is: a folder with its views, the dataclasses that its templates read, and its templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from crossline.serve.access.roles import Need
from crossline.serve.console.access import NEEDS

# Gives a context (a frozen dataclass with `TEMPLATE`), `Shown`, or a response of Starlette. A plain function is run
# in a thread, so that it may wait for the disk; a coroutine must not.
View = Callable[[Any], Any]
Group = Literal["Work", "Rules", "Operations"]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address of a page, and what answers there. ``path``: as Starlette has it, such as ``/decisions/{id}``."""

    method: Literal["GET", "POST"]
    path: str
    view: View

    @property
    def need(self) -> Need:
        """What it asks of who comes, out of the one table. Raises KeyError if that has no entry."""
        return NEEDS[self.method, self.path]


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    ``ways``: the first is the page itself, the others its acts and parts. ``label``, ``group``: its line in the rail,
    where it has one. ``count``: what stands behind its label, of what a person must act on; None: nothing.
    ``more``: further lines (``Line``) beneath its own. ``tab``: one of the four at the foot of narrow screens.
    ``only_open``: of the open demonstration alone.
    """

    name: str
    ways: tuple[PageRoute, ...]
    label: str = ""
    group: Group | None = None
    count: Callable[[Any], int | None] | None = None
    more: Callable[[Any], tuple[Any, ...]] | None = None
    tab: bool = False
    only_open: bool = False

    @property
    def path(self) -> str:
        """Where it is."""
        return self.ways[0].path
