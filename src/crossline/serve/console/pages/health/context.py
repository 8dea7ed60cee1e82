"""What the page of health shows of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class HealthTab:
    """A part of health, or a span of time, that may be looked at."""

    label: str
    address: str
    current: bool


@dataclass(frozen=True, slots=True)
class Remark:
    """``grade``: ``crit``, ``high`` or empty."""

    text: str
    grade: str


@dataclass(frozen=True, slots=True)
class HealthRow:
    """A rule. ``points``: alerts from 0 to 1; ``band``: what is due, likewise, or none; ``bad``: beyond it.

    ``due_text``: by what it is due. ``precision_text``, ``cost_text``: what these rest on.
    """

    rule_id: str
    address: str
    version: int
    status: str
    owner: str
    points: tuple[float, ...]
    band: tuple[float, float] | None
    bad: bool
    caption: str
    last_24h: str
    a_day: str
    due: str
    due_text: str
    precision: str
    interval: str
    corrected: str
    precision_text: str
    false_positives: str
    cost: str
    cost_text: str
    parity: str
    parity_grade: str
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class HeldRow:
    """What was predicted of a rule, beside what came. ``of``: what that rests on."""

    rule_id: str
    address: str
    what: str
    predicted: str
    came: str
    of: str
    beyond: bool


@dataclass(frozen=True, slots=True)
class MetRow:
    """Two rules: shares of the first one's records and entities, as text.

    ``cooled``: of its records those that rest first on the other, which was silent there in its cooldown; of a rule
    with itself those that its own cooldown held back.
    """

    rule_id: str
    address: str
    other: str
    other_address: str
    records: str
    entities: str
    led: str
    cooled: str


@dataclass(frozen=True, slots=True)
class HealthPage:
    """``calls``: how many rules call for a person, ``calls_text``: with what. ``wrong``: why nothing can be shown.

    ``counted``: since when alerts are counted, in words. ``lake_parity``: what the last comparison with the lake found.
    ``tabs``: parts of health; ``spans``: of the sparklines.
    """

    TEMPLATE: ClassVar[str] = "pages/health/health.html"
    shell: Shell
    pipeline: str
    as_of: Moment | None
    tabs: tuple[HealthTab, ...]
    spans: tuple[HealthTab, ...]
    rows: tuple[HealthRow, ...]
    calls: int
    calls_text: str
    held: tuple[HeldRow, ...]
    met: tuple[MetRow, ...]
    counted: str
    label_days: int
    lake_parity: str
    refused: tuple[tuple[str, str], ...]
    wrong: str
