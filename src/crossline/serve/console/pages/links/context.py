"""What the page of links shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class Beside:
    """An entity nearer to the first one, or on the same step, and how it is linked. ``text``: as short as it may be."""

    field: str
    value: str
    text: str
    caption: str


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity. ``place``: among all, as the drawing has it; ``around``: the page of its own links.

    ``held``: until when; ``beside_more``: linked with so many others here; ``more``: entities beside it that are not
    here; ``found_only``: its own links were not followed.
    """

    place: int
    field: str
    value: str
    text: str
    address: str
    around: str
    steps: int
    decision: str
    held: Moment | None
    fraud: int
    cases: int
    numbers: tuple[str, ...]
    beside: tuple[Beside, ...]
    beside_more: int
    more: int
    found_only: bool


@dataclass(frozen=True, slots=True)
class LinksPage:
    """``depths``: of (steps, address, current); ``kinds``: fields with the shape that each has in the drawing.

    ``graph``: what is drawn, as JSON; ``caption``: what a person would conclude of it; ``left_out``: empty: nothing is.
    """

    TEMPLATE: ClassVar[str] = "pages/links/links.html"
    shell: Shell
    field: str
    value: str
    text: str
    entity: str
    depths: tuple[tuple[int, str, bool], ...]
    facts: tuple[str, ...]
    caption: str
    left_out: str
    kinds: tuple[tuple[str, str], ...]
    rows: tuple[EntityRow, ...]
    graph: str
