"""What the page of objectives shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class WindowCell:
    """How an objective did within a window. ``value``: at the percentile that is promised, empty if there is none.

    ``word``: kept, missed or not known; ``full``: on focus.
    """

    value: str
    share: str
    word: str
    full: str


@dataclass(frozen=True, slots=True)
class ObjectiveRow:
    """An objective. ``bar``: what is left of its budget, 0 to 1; ``bar_kind``: ok, wn (little), or over."""

    label: str
    promise: str
    windows: tuple[WindowCell, ...]
    left: str
    bar: float
    bar_kind: str
    unknown: str


@dataclass(frozen=True, slots=True)
class Burning:
    """An objective whose budget goes fast. ``kind``: of the notice, err or warn."""

    kind: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ObjectivesPage:
    """``as_of``: the end of the last minute that is counted. ``failed``: why they cannot be read now."""

    TEMPLATE: ClassVar[str] = "pages/objectives/objectives.html"
    shell: Shell
    as_of: Moment | None
    rows: tuple[ObjectiveRow, ...]
    burning: tuple[Burning, ...]
    failed: str
    pipeline_path: str
