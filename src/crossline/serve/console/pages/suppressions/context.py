"""What the page of suppressions shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class SuppressionRow:
    """A suppression. ``what``: which alerts; ``frauds``: of those that it hid, on records labelled as fraud."""

    number: int
    what: str
    reason: str
    who: str
    made: Moment
    until: Moment
    ended_by: str
    hidden: int
    frauds: int
    etag: str


@dataclass(frozen=True, slots=True)
class FraudRow:
    """An alert that was hidden, on a record that is labelled as fraud."""

    at: Moment
    rule_id: str
    record_id: str
    message: str


@dataclass(frozen=True, slots=True)
class SuppressionsPage:
    """``chosen``: the one that is looked at, with its ``frauds``. ``form``: what was sent and refused (``wrong``).

    ``why_not``: why who looks cannot make or end one; empty: he can.
    """

    TEMPLATE: ClassVar[str] = "pages/suppressions/suppressions.html"
    shell: Shell
    active: tuple[SuppressionRow, ...]
    ended: tuple[SuppressionRow, ...]
    chosen: SuppressionRow | None
    frauds: tuple[FraudRow, ...]
    rules: tuple[str, ...]
    form: Mapping[str, str]
    why_not: str
    wrong: str
