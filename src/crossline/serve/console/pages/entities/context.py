"""What the pages of entities show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class EntitiesPage:
    """``fields``: those of keys; ``field``, ``value``: as they were typed; ``wrong``: why there is no such page."""

    TEMPLATE: ClassVar[str] = "pages/entities/entities.html"
    shell: Shell
    fields: tuple[str, ...]
    field: str
    value: str
    wrong: str


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure. ``window``: from when to when it looks; ``crossed``: whether it is beyond what it is held against."""

    name: str
    rule: str
    address: str
    window: str
    value: str
    against: str
    crossed: bool


@dataclass(frozen=True, slots=True)
class EntityAlertRow:
    """An alert. ``status``: its last word by corrections."""

    at: Moment
    severity: str
    message: str
    rule: str
    address: str
    kind: str
    status: str


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """A decision on a record of an alert."""

    at: Moment
    address: str
    record_id: str
    decision: str
    why: str


@dataclass(frozen=True, slots=True)
class HoldRow:
    """What holds it. ``etag``: of what was looked at; ``whole_key``: where the key has more fields than this one."""

    hold_id: str
    etag: str
    by: str
    action: str
    until: Moment
    reason: str
    whole_key: str
    release: str


@dataclass(frozen=True, slots=True)
class EntityListRow:
    """An entry that is it. ``until``: None: for good."""

    name: str
    address: str
    until: Moment | None


@dataclass(frozen=True, slots=True)
class EntityCaseRow:
    """A case in which its alerts are."""

    number: str
    address: str
    sentence: str
    status: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Another entity that is in the same cases. ``share``: of the most cases that any has, from 0 to 1."""

    field: str
    value: str
    address: str
    cases: int
    share: float


@dataclass(frozen=True, slots=True)
class HoldPanel:
    """What is about to be done. ``wrong``: what was wrong with what was sent.

    ``spans``: of (label, address, current); ``until``: as the button shows it; ``until_iso``: what is sent;
    ``stopped``: what it would have stopped in the past 24 hours, in pieces of (text, is strong).
    """

    title: str
    action: str
    word: str
    until: str
    until_iso: str
    spans: tuple[tuple[str, str, bool], ...]
    stopped: tuple[tuple[str, bool], ...]
    reason: str
    wrong: str
    key: str


@dataclass(frozen=True, slots=True)
class EntityPage:
    """``as_of``: where the figures come from, and as of when; ``missing``: rules without a figure, each with why.

    ``around``: the page of its links. ``panel``: None: nothing is about to be done; ``releasing``: the hold that is
    about to be released. ``why_not``: why who looks cannot hold; empty: he can. ``stands``: state and word. ``days``:
    alerts on each of 30 days.
    """

    TEMPLATE: ClassVar[str] = "pages/entities/entity.html"
    shell: Shell
    field: str
    value: str
    address: str
    around: str
    stands: tuple[str, str]
    facts: tuple[str, ...]
    as_of: str
    figures: tuple[FigureRow, ...]
    missing: tuple[tuple[str, str], ...]
    alerts: tuple[EntityAlertRow, ...]
    alerts_more: bool
    decisions: tuple[DecidedRow, ...]
    holds: tuple[HoldRow, ...]
    lists: tuple[EntityListRow, ...]
    cases: tuple[EntityCaseRow, ...]
    links: tuple[LinkRow, ...]
    days: tuple[int, ...]
    days_text: str
    panel: HoldPanel | None
    releasing: HoldRow | None
    release_reason: str
    release_wrong: str
    why_not: str
