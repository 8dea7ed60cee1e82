"""What the page of a case shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.casework.changes import CounterfactualTable
from crossline.serve.console.casework.evidence import EvidenceView
from crossline.serve.console.casework.forms import ActionForm
from crossline.serve.console.casework.rows import TextPiece
from crossline.serve.console.charts.svg import Element
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell
from crossline.serve.console.pages.queue.context import Near


@dataclass(frozen=True, slots=True)
class AlertTab:
    """An alert of the case."""

    alert_id: str
    rule: str
    severity: str
    at: Moment
    path: str
    current: bool
    retracted: bool


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """An answer, or a revision of one."""

    at: Moment
    decision: str
    how: str


@dataclass(frozen=True, slots=True)
class DecisionPanel:
    """The decision on the record of an alert. ``receipt``: whole, as JSON; empty: it has none."""

    decision: str
    score: str
    path: str
    steps: tuple[AnswerStep, ...]
    reasons: tuple[str, ...]
    policy: str
    digest: str
    receipt: str


@dataclass(frozen=True, slots=True)
class RuleText:
    """The version that fired. ``diff``: against the one before, of (sign, text); ``differ``: how many lines do."""

    name: str
    version: str
    since: Moment | None
    status: str
    diff: tuple[tuple[str, str], ...]
    differ: int
    before: str
    english: str


@dataclass(frozen=True, slots=True)
class Happened:
    """A line of the activity. ``who``: empty if it was the linking of alerts."""

    at: Moment
    who: str
    caption: str
    note: str


@dataclass(frozen=True, slots=True)
class CaseStatus:
    """What changes while one reads. ``others``: of (name, initials); ``over``: why acts are not possible any more."""

    others: tuple[tuple[str, str], ...]
    over: str
    changed: str
    path: str


@dataclass(frozen=True, slots=True)
class ActionButton:
    """What can be done, with its key; ``why_not``: it is there and cannot be done."""

    label: str
    key: str
    path: str
    kind: str
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class CasePage:
    """The page. ``chosen``: id of the alert that is looked at; empty: nothing is known of its alerts."""

    TEMPLATE: ClassVar[str] = "pages/case/case.html"
    shell: Shell
    number: str
    version: int
    status: str
    severity: str
    sentence: tuple[TextPiece, ...]
    facts: tuple[str, ...]
    assignee: str
    mark: str
    tabs: tuple[AlertTab, ...]
    chosen: str
    before: str
    after: str
    acts: tuple[ActionButton, ...]
    ask: ActionForm | None
    state: CaseStatus
    state_path: str
    evidence: EvidenceView | None
    evidence_path: str
    evidence_why: str
    changes_path: str
    decided: DecisionPanel | None
    rule: RuleText | None
    linked: tuple[Near, ...]
    similar: tuple[Near, ...]
    entities: tuple[tuple[str, str, str], ...]
    activity: tuple[Happened, ...]
    address: str
    back: str
    nonce: str
    token: str
    may_act: bool
    why_not: str
    printed: str


@dataclass(frozen=True, slots=True)
class StatePart:
    """What changes while one reads, alone."""

    TEMPLATE: ClassVar[str] = "pages/case/state_part.html"
    state: CaseStatus


@dataclass(frozen=True, slots=True)
class EvidencePart:
    """The window, the figures and the records alone."""

    TEMPLATE: ClassVar[str] = "pages/case/evidence_part.html"
    evidence: EvidenceView
    nonce: str


@dataclass(frozen=True, slots=True)
class SmallPart:
    """The window in the preview."""

    TEMPLATE: ClassVar[str] = "pages/case/small.html"
    drawing: Element | None
    figures: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class ChangesPart:
    """What would not have fired. ``path``: where it is asked for again while it is looked for."""

    TEMPLATE: ClassVar[str] = "pages/case/changes.html"
    changes: CounterfactualTable
    path: str
    nonce: str


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """The same on a page of its own, for who has no script."""

    TEMPLATE: ClassVar[str] = "pages/case/evidence_page.html"
    shell: Shell
    number: str
    evidence: EvidenceView
    address: str
    nonce: str


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """What would not have fired on a page of its own, for who has no script."""

    TEMPLATE: ClassVar[str] = "pages/case/changes_page.html"
    shell: Shell
    number: str
    changes: CounterfactualTable
    path: str
    address: str
    nonce: str
