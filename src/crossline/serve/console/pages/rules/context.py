"""What the pages of rules show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from crossline.analysis.forms.values import RuleForm, TypeChange
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell
from crossline.serve.console.pages.rules.editor_parts import Curve, GoingOn, Sample, TextFault, TrialView


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule. ``days``: alerts of the past 14 days; ``points``: the same, from 0 to 1; ``waits``: a draft.

    ``broken``: which figures are beyond what was predicted; empty: none.
    """

    rule_id: str
    address: str
    rule_type: str
    severity: str
    status: str
    version: int
    owner: str
    days: tuple[int, ...]
    points: tuple[float, ...]
    per_day: str
    precision: str
    money: str
    cost: str
    changed: Moment | None
    waits: str
    broken: str


@dataclass(frozen=True, slots=True)
class RulesPage:
    """``refused``: files that were not loaded, each with why. ``filters``: how many are set."""

    TEMPLATE: ClassVar[str] = "pages/rules/rules.html"
    shell: Shell
    rows: tuple[RuleRow, ...]
    total: int
    refused: tuple[tuple[str, str], ...]
    statuses: tuple[str, ...]
    status: str
    text: str
    sort: str
    filters: int
    why_not: str


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version. ``judges``: from when to when it judged."""

    version: int
    address: str
    status: str
    severity: str
    judges: str
    current: bool


@dataclass(frozen=True, slots=True)
class RuleEventRow:
    """What became of the rule."""

    at: Moment
    what: str
    who: str


@dataclass(frozen=True, slots=True)
class RuleAlertRow:
    """An alert of the rule."""

    at: Moment
    severity: str
    message: str
    entities: tuple[tuple[str, str, str], ...]
    status: str


@dataclass(frozen=True, slots=True)
class PredictionRow:
    """The prediction beside what came. ``today``: how many so far.

    ``beyond``: it is beyond its band; ``band``: of the sparkline, from 0 to 1.
    """

    predicted: str
    came: str
    today: str
    beyond: str
    days: tuple[int, ...]
    points: tuple[float, ...]
    band: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far the version in force has come. ``caption``: for which keys it decides, and who has the others.

    ``watching``: the prediction and today's observations; empty: none. ``wider``: the shares that it may
    be given; ``back``: the version that rolling back goes to, 0: there is none. ``asked``: the share that is asked for.
    """

    version: int
    caption: str
    watching: str
    wider: tuple[str, ...]
    back: int
    asked: str
    etag: str


@dataclass(frozen=True, slots=True)
class RulePage:
    """``version``: that which is looked at; ``before``: the number of the version before, 0: none.

    ``moves``: statuses that it may be given; ``why_not_draft``, ``why_not_approve``: empty if who looks may.
    ``held``: what was predicted beside what came, and whether it is beyond it.
    ``waits``: what waits for a second person.
    """

    TEMPLATE: ClassVar[str] = "pages/rules/rule.html"
    shell: Shell
    rule_id: str
    version: int
    rule_type: str
    severity: str
    status: str
    owner: str
    live: str
    waits: str
    caption: str
    text: tuple[str, ...]
    diff: tuple[tuple[str, str], ...]
    differs: int
    before: int
    versions: tuple[VersionRow, ...]
    events: tuple[RuleEventRow, ...]
    alerts: tuple[RuleAlertRow, ...]
    days: tuple[int, ...]
    days_text: str
    per_day: str
    precision: str
    precision_of: str
    money: str
    cost: str
    held: tuple[tuple[str, bool], ...]
    kept: PredictionRow | None
    rollout: Rollout
    edit: str
    etag: str
    moves: tuple[str, ...]
    act: str
    consequence: str
    why_not_draft: str
    why_not_approve: str
    wrong: str


@dataclass(frozen=True, slots=True)
class EditPage:
    """``base``: the version that is edited, 0: a new rule. ``why_no_ask``: why no approval can be asked for, or empty.

    ``saved``: when the draft was saved; ``inputs``: files of the past. ``form``, ``wrongs``, ``turn``: as of a filled
    part. ``draws``: what the line is of. ``stale``: the backtest is of another text; ``going_on``: those not shown.
    """

    TEMPLATE: ClassVar[str] = "pages/rules/edit.html"
    shell: Shell
    rule_id: str
    base: int
    text: str
    saved: Moment | None
    live: str
    faults: tuple[TextFault, ...]
    caption: str
    ok: bool
    differs: int
    against: int
    changed: tuple[int, ...]
    diff: tuple[tuple[str, str], ...]
    form: RuleForm | None
    wrongs: Mapping[str, str]
    turn: TypeChange | None
    draws: str
    curve: Curve | None
    sample: Sample | None
    records: str
    first: str
    trial: TrialView | None
    stale: bool
    going_on: tuple[GoingOn, ...]
    job: str
    inputs: str
    since: str
    until: str
    why_no_ask: str
    wrong: str
    token: str
    nonce: str
