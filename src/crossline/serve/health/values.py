"""The health of a rule, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.delays import CorrectedPrecision
from crossline.analysis.health.predictions import PredictionCheck
from crossline.analysis.health.rhythm import Rhythm
from crossline.analysis.health.shares import Precision
from crossline.analysis.health.stability import Drift

# What may be wrong with a rule: the first five call for a person.
WRONG = ("floods", "silent", "alerts", "money", "precision", "parity", "drift")
CALLS = WRONG[:6]


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """A rule in the version that is in force.

    ``since_day``: the day of the epoch since which some version judges; None: not known. ``changed_ms``: when it was
    published or given a status last, epoch milliseconds.
    """

    rule_id: str
    version: int
    rule_type: str
    severity: str
    status: str
    owner: str
    since_day: int | None = None
    changed_ms: int | None = None
    sentence: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of which kinds its alerts are."""
        return ("shadow",) if self.status == "shadow" else ("alert", "feed")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the backtest of a version predicted. ``published_ms``: since when the version judges.

    ``money``: in units of currencies; None if no amount was asked for. ``precision``: of labelled alerts.
    """

    version: int
    published_ms: int
    alerts: DailyForecast
    money: DailyForecast | None = None
    precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class RuleCost:
    """Processor time of judging: µs a record of all streams, and the share of all rules' time. ``since``, ``until``.

    Of the batches that were delivered from one instant to the other.
    """

    us_per_record: float
    share: float
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class LakeParity:
    """Alerts of the stream against a replay of the lake, and against the receipts in it, as of ``at``.

    ``compared``, ``answered``: how many were compared; ``differ``, ``answered_differ``: of how many something differs.
    ``alert_ids``: some of these.
    """

    at: str
    compared: int
    differ: int
    answered: int
    answered_differ: int
    alert_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parity:
    """Figures of the same record from API and stream. ``compared``: alerts of records that the API had answered.

    ``differ``: of these, where the figures are not the same. ``decisions``: answers in which this rule was a reason, or
    became one, and that the stream decided otherwise, in the past 7 days. ``lake``: of the last report of
    ``crossline lake parity``, if there is one.
    """

    compared: int = 0
    differ: int = 0
    decisions: int = 0
    lake: LakeParity | None = None

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.differing

    @property
    def differing(self) -> int:
        """How many things differ."""
        lake = 0 if self.lake is None else self.lake.differ + self.lake.answered_differ
        return self.differ + self.decisions + lake

    @property
    def any_compared(self) -> bool:
        """Whether anything was compared."""
        return bool(self.compared or (self.lake is not None and (self.lake.compared or self.lake.answered)))


@dataclass(frozen=True, slots=True)
class RuleOverlap:
    """Another rule. Shares of this rule's records, and of its entities by the day, that the other has an alert on too.

    ``led``: the share of its records whose decision rests on the other first; ``cooled``: of its records those of them
    where the other was in its cooldown, and raised no alert.
    """

    rule_id: str
    records: float
    entities: float
    led: float
    cooled: float = 0.0


@dataclass(frozen=True, slots=True)
class RuleHealth:
    """How a rule does.

    ``last_24h``, ``last_7d``: alerts. ``hours``: the past 24 hours; ``days``: past days and today, which is not over,
    the oldest first, from ``first_day`` of the epoch on. ``due``: what is due of a day, by the ``backtest`` or by its
    own ``past``. ``hidden``: the share of its alerts of 7 days that suppressions hid. ``held_back``: of the
    records of 7 days at which it would have alerted, the share where its own cooldown held that back. ``fraud``: money
    of labelled frauds, by currency.
    """

    facts: RuleFacts
    last_24h: int
    last_7d: int
    hours: tuple[int, ...]
    days: tuple[int, ...]
    first_day: int
    due: DailyForecast | None
    due_by: str
    rhythm: Rhythm
    precision: Precision
    corrected: CorrectedPrecision
    fraud: Mapping[str, float]
    cost: RuleCost | None
    met: tuple[RuleOverlap, ...]
    hidden: float
    held_back: float
    drift: Drift | None
    parity: Parity | None
    held: tuple[PredictionCheck, ...]
    wrong: tuple[str, ...]

    @property
    def calls(self) -> bool:
        """Whether it calls for a person."""
        return any(each in CALLS for each in self.wrong)


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Of all rules, by name. ``counted``: whether alerts are counted here; ``since_day``: from when on.

    ``answered``: whether there is an API whose answers can be compared. ``lake_parity``: what the last report on parity
    with the lake is about: ``at``, ``since``, ``until``, ``records``, ``same``, and ``decisions`` by kind.
    """

    pipeline: str
    at_ms: int
    rules: tuple[RuleHealth, ...]
    counted: bool
    since_day: int | None
    answered: bool
    refused: Mapping[str, str]
    lake_parity: Mapping[str, Any] | None = None


def share_json(of: Precision) -> dict[str, Any]:
    """A precision for programs; null where there are too few labels."""
    low, high = of.interval or (None, None)
    return {"value": _round(of.value), "low": _round(low), "high": _round(high)}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
