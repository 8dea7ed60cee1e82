"""What the queue shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.casework.address import Chip
from crossline.serve.console.casework.forms import ActionForm
from crossline.serve.console.casework.rows import CaseRow, TextPiece
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class QueueTab:
    """A view. ``count``: as text."""

    label: str
    path: str
    count: str
    current: bool


@dataclass(frozen=True, slots=True)
class Empty:
    """Why nothing is there, and the one thing to do."""

    caption: str
    why: str
    action: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Near:
    """A case beside another. ``caption``: what became of it, or what both have."""

    number: str
    address: str
    sentence: tuple[TextPiece, ...]
    severity: str
    caption: str
    at: Moment


@dataclass(frozen=True, slots=True)
class Preview:
    """A case beside the list. ``alert``: the address of what is drawn of its gravest alert; empty: nothing is."""

    number: str
    address: str
    severity: str
    sentence: tuple[TextPiece, ...]
    at: Moment
    facts: tuple[str, ...]
    chart: str
    decision: str
    was: str
    decided: str
    linked: tuple[Near, ...]
    similar: tuple[Near, ...]
    back: str
    may_act: bool
    may_hold: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The queue.

    ``order``: the orders there are, each with its address; ``fields``: what "Add filter" asks for, of (name, label,
    value, choices). ``more``: address of the next rows. ``news``: where it is asked what is new. ``seen``: the case
    that was opened last.
    """

    TEMPLATE: ClassVar[str] = "pages/queue/queue.html"
    shell: Shell
    tabs: tuple[QueueTab, ...]
    chips: tuple[Chip, ...]
    order: tuple[tuple[str, str, bool], ...]
    order_label: str
    fields: tuple[tuple[str, str, str, tuple[str, ...]], ...]
    kept: tuple[tuple[str, str], ...]
    rows: tuple[CaseRow, ...]
    code: str
    more: str
    total: int
    news: str
    empty: Empty | None
    preview: Preview | None
    ask: ActionForm | None
    back: str
    view_label: str
    query: str
    nonce: str
    token: str
    may_act: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class MoreRows:
    """The next rows of the list."""

    TEMPLATE: ClassVar[str] = "pages/queue/more.html"
    rows: tuple[CaseRow, ...]
    more: str


@dataclass(frozen=True, slots=True)
class PreviewPart:
    """The preview alone."""

    TEMPLATE: ClassVar[str] = "pages/queue/preview_part.html"
    preview: Preview
    nonce: str
    token: str


@dataclass(frozen=True, slots=True)
class NewsPart:
    """What is new above; nothing where ``count`` is 0."""

    TEMPLATE: ClassVar[str] = "pages/queue/news.html"
    count: int
    critical: int
    path: str
