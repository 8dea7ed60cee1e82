"""What the pages of approvals show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell
from crossline.serve.console.pages.rules.editor_parts import TrialFigure


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request. ``decided``: when it was over; None: it waits."""

    number: int
    address: str
    rule_id: str
    version: int
    who: str
    asked: Moment
    state: str
    decided: Moment | None
    decided_by: str
    reason: str
    predicted: str


@dataclass(frozen=True, slots=True)
class PendingVersionRow:
    """A version that was published and waits.

    ``address``: of its text; empty if this server does not have it. ``asks``: where it is confirmed; ``act``: whether
    it is about to be. ``proven``: whether there is a proof of its text. ``why_not``: why who looks cannot approve.
    """

    rule_id: str
    version: int
    address: str
    who: str
    at: Moment
    etag: str
    asks: str
    proven: bool
    act: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class ApprovalsPage:
    """What waits, and what is over. ``versions``: published by themselves, or set to decide more, without a request."""

    TEMPLATE: ClassVar[str] = "pages/approvals/approvals.html"
    shell: Shell
    waiting: tuple[RequestRow, ...]
    versions: tuple[PendingVersionRow, ...]
    decided: tuple[RequestRow, ...]


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """``why_not``: why who looks cannot decide; empty: he can.

    ``changed``: that the live version is another than it was proven against.

    ``act``: approve, reject, or nothing that is about to be done.
    """

    TEMPLATE: ClassVar[str] = "pages/approvals/approval.html"
    shell: Shell
    row: RequestRow
    caption: str
    text: tuple[str, ...]
    diff: tuple[tuple[str, str], ...]
    differs: int
    against: int
    figures: tuple[TrialFigure, ...]
    appear: int
    disappear: int
    both: int
    proof: tuple[tuple[str, str, str], ...]
    ran_by: str
    ran_at: Moment
    changed: str
    consequence: str
    act: str
    proof_id: str
    why_not: str
    wrong: str
