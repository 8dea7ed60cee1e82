"""What the pages of approvals show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell
from crossline.serve.console.pages.rules.context import Figure


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
class ApprovalsPage:
    """What waits, and what is over."""

    TEMPLATE: ClassVar[str] = "pages/approvals/approvals.html"
    shell: Shell
    waiting: tuple[RequestRow, ...]
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
    said: str
    text: tuple[str, ...]
    diff: tuple[tuple[str, str], ...]
    differs: int
    against: int
    figures: tuple[Figure, ...]
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
