"""What the page of saved views shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view. ``caption``: its filters in words; ``count``: as text."""

    name: str
    caption: str
    path: str
    count: str
    default: bool


@dataclass(frozen=True, slots=True)
class ViewsPage:
    """``query``: the view that is to be saved, as text, and ``caption`` in words; empty: none is."""

    TEMPLATE: ClassVar[str] = "pages/views/views.html"
    shell: Shell
    views: tuple[SavedView, ...]
    query: str
    caption: str
    token: str
    may_act: bool
    why_not: str
    problem: str
    name: str
