"""What the pages of decisions show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision, or the revision of one. ``why``: the first reason, and how many more there are."""

    decision_id: str
    address: str
    kind: str
    at: Moment
    stream: str
    record_id: str
    decision: str
    score: str
    why: str


@dataclass(frozen=True, slots=True)
class DecisionsPage:
    """``older``: address of the next page; empty: there is none. ``filters``: how many are set.

    ``of_lake``: whether the rows are from the lake.
    """

    TEMPLATE: ClassVar[str] = "pages/decisions/decisions.html"
    shell: Shell
    rows: tuple[DecisionRow, ...]
    words: tuple[str, ...]
    decision: str
    record: str
    filters: int
    older: str
    newest: str
    of_lake: bool = False


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """Why. ``caption``: the alert's message, or its id."""

    rule: str
    caption: str
    score: str


@dataclass(frozen=True, slots=True)
class RevisionStep:
    """An answer or a revision, in its order. ``how``: what it was answered by, or why it was revised."""

    at: Moment
    kind: str
    decision: str
    score: str
    how: str


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """``decision``: as it stands now; ``receipt``: its JSON, whole; empty: it has none."""

    TEMPLATE: ClassVar[str] = "pages/decisions/decision.html"
    shell: Shell
    decision_id: str
    stream: str
    record_id: str
    decision: str
    score: str
    policy: str
    rules_digest: str
    event_time: str
    steps: tuple[RevisionStep, ...]
    reasons: tuple[ReasonRow, ...]
    degraded: tuple[str, ...]
    receipt: str
    digest: str
