"""What the page of the search shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One thing that was found. ``name``: its id or number; ``caption``: its sentence; ``meta``: what else is known.

    ``severity``, ``decision``: empty if it has none.
    """

    address: str
    name: str
    caption: str
    meta: str
    severity: str = ""
    decision: str = ""
    at: Moment | None = None


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What was found of one kind. ``more``: where more of it stands; empty: nowhere. ``is_more``: there is more."""

    label: str
    hits: tuple[SearchHit, ...]
    is_more: bool = False
    more: str = ""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """``groups``: without those that have nothing; ``wrong``: what was wrong with ``q``."""

    TEMPLATE: ClassVar[str] = "pages/search/search.html"
    shell: Shell
    q: str
    wrong: str
    groups: tuple[SearchHits, ...]
