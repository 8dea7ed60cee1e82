"""What the audit trail shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import NavLine, Shell


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A write. ``outcome``: done, refused, failed or begun; ``by``: how who asked was known; ``detail``: its JSON."""

    number: int
    at: Moment
    who: str
    by: str
    what: str
    resource: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """``filters``: how many there are; ``older``: address of the next page; empty: there is none.

    ``digest``: of the last line, which the command can be given to check that nothing is missing.
    """

    TEMPLATE: ClassVar[str] = "pages/audit/audit.html"
    shell: Shell
    rows: tuple[AuditRow, ...]
    who: str
    what: str
    since: str
    outcome: str
    outcomes: tuple[str, ...]
    filters: int
    looked: int
    older: str
    newest: NavLine
    digest: str
