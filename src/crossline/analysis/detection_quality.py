"""Detection quality: alerts compared with labels and with other alerts, by the records of their evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Alert = Mapping[str, Any]


def rests_on(alert: Alert) -> set[str]:
    """The ids of the records in an alert: its own, and those that its evidence names."""
    return {alert["record_id"], *(alert.get("evidence") or {}).get("record_ids", ())}


@dataclass(frozen=True, slots=True)
class FraudLabels:
    """Labels of fraud.

    Attributes:
        frauds: By record id, the frauds that it is part of.
        asked: The frauds that should be found.
        named: The number of labelled records.
        good: The records labelled as no fraud; empty if the labels name frauds only.
    """

    frauds: Mapping[str, frozenset[str]]
    asked: frozenset[str]
    named: int
    good: frozenset[str] = frozenset()

    def verdict(self, record_id: str) -> bool | None:
        """Whether a record is fraud; None: unlabelled. If the labels name only frauds, all other records are good."""
        if self.frauds.get(record_id):
            return True
        return False if not self.good or record_id in self.good else None


@dataclass(frozen=True, slots=True)
class DetectionQuality:
    """How well alerts find frauds.

    ``true``: alerts with a record of a fraud. ``caught``: the frauds in such alerts. Money is a sum of amounts: of the
    records of caught frauds, of missed frauds, and of the records at which false alerts fired; None without amounts.
    """

    alerts: int
    true: int
    frauds: int
    caught: frozenset[str]
    money_caught: float | None = None
    money_missed: float | None = None
    money_false: float | None = None

    @property
    def precision(self) -> float | None:
        """The share of true alerts; None without alerts."""
        return self.true / self.alerts if self.alerts else None

    @property
    def recall(self) -> float | None:
        """The share of caught frauds; None without frauds."""
        return len(self.caught) / self.frauds if self.frauds else None

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if one of them is 0 or None."""
        precision, recall = self.precision or 0.0, self.recall or 0.0
        return 2 * precision * recall / (precision + recall) if precision and recall else 0.0

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        row: dict[str, Any] = {
            "true": self.true,
            "frauds": self.frauds,
            "caught": len(self.caught),
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
        }
        if self.money_caught is not None:
            money = (self.money_caught, self.money_missed, self.money_false)
            row |= dict(zip(("money_caught", "money_missed", "money_false"), money, strict=True))
        return row


def measure_quality(
    alerts: Iterable[Alert], marks: FraudLabels, amounts: Mapping[str, float] | None = None
) -> DetectionQuality:
    """Measure ``alerts`` against the labels ``marks``; ``amounts``: by record id."""
    count = true = 0
    caught: set[str] = set()
    false_at: set[str] = set()
    for alert in alerts:
        found = set().union(*(marks.frauds.get(each, ()) for each in rests_on(alert)))
        count += 1
        true += bool(found)
        caught |= found & marks.asked
        if not found:
            false_at.add(alert["record_id"])
    quality = DetectionQuality(alerts=count, true=true, frauds=len(marks.asked), caught=frozenset(caught))
    if amounts is None:
        return quality
    asked = {each: amounts.get(each, 0) for each, frauds in marks.frauds.items() if frauds & marks.asked}
    stopped = sum(amount for each, amount in asked.items() if marks.frauds[each] & caught)
    return replace(
        quality,
        money_caught=stopped,
        money_missed=sum(asked.values()) - stopped,
        money_false=sum(amounts.get(each, 0) for each in false_at),
    )


@dataclass(frozen=True, slots=True)
class AlertSetComparison:
    """One of two compared sets of alerts. ``shared``: its alerts that have a record in common with the other set.

    ``caught_alone``: frauds that only this set caught; ``weighed``: None without labels.
    """

    alerts: int
    shared: int
    days: float
    weighed: DetectionQuality | None = None
    caught_alone: int | None = None
    alone: Sequence[Alert] = field(default=())

    @property
    def only(self) -> int:
        """Alerts that share no record with the other set."""
        return self.alerts - self.shared

    @property
    def per_day(self) -> float:
        """Alerts per day of event time."""
        return self.alerts / self.days

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON, with examples of the alerts that only this set has."""
        row: dict[str, Any] = {"alerts": self.alerts, "shared": self.shared, "only": self.only}
        row["alerts_per_day"] = round(self.per_day, 3)
        row["examples"] = [
            {name: each[name] for name in ("alert_id", "rule_id", "record_id", "event_time", "message")}
            for each in self.alone
        ]
        if self.weighed is not None:
            row |= {**self.weighed.as_json(), "caught_alone": self.caught_alone}
        return row


EXAMPLES = 5


def compare_alert_sets(
    one: Collection[Alert],
    other: Collection[Alert],
    days: float,
    marks: FraudLabels | None = None,
    amounts: Mapping[str, float] | None = None,
) -> tuple[AlertSetComparison, AlertSetComparison]:
    """Compare two sets of alerts; ``days``: the length of their records in event time."""
    weighed = [measure_quality(each, marks, amounts) if marks is not None else None for each in (one, other)]
    return (
        _side(one, other, days, weighed[0], weighed[1]),
        _side(other, one, days, weighed[1], weighed[0]),
    )


def _side(
    mine: Collection[Alert],
    theirs: Collection[Alert],
    days: float,
    weighed: DetectionQuality | None,
    its: DetectionQuality | None,
) -> AlertSetComparison:
    records = {(alert["stream"], each) for alert in theirs for each in rests_on(alert)}
    alone = [alert for alert in mine if not any((alert["stream"], each) in records for each in rests_on(alert))]
    caught_alone = len(weighed.caught - its.caught) if weighed is not None and its is not None else None
    return AlertSetComparison(len(mine), len(mine) - len(alone), days, weighed, caught_alone, tuple(alone[:EXAMPLES]))


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """A shadow rule compared with the active ones. ``with_rules``: its alerts that share a record, by active rule."""

    rule_id: str
    side: AlertSetComparison
    with_rules: Mapping[str, int]


def shadow_report(
    alerts: Iterable[Alert],
    shadow: Collection[str],
    days: float,
    marks: FraudLabels | None = None,
    amounts: Mapping[str, float] | None = None,
) -> list[ShadowComparison]:
    """Compare each rule of ``shadow`` with all other rules that have alerts; by name, rules without alerts included."""
    mine: dict[str, list[Alert]] = {name: [] for name in sorted(shadow)}
    active: list[Alert] = []
    for alert in alerts:
        mine.get(alert["rule_id"], active).append(alert)
    of_rule: dict[tuple[str, str], set[str]] = {}
    for alert in active:
        for each in rests_on(alert):
            of_rule.setdefault((alert["stream"], each), set()).add(alert["rule_id"])
    found = []
    for name, own in mine.items():
        side, _ = compare_alert_sets(own, active, days, marks, amounts)
        met: dict[str, int] = {}
        for alert in own:
            rules = set().union(*(of_rule.get((alert["stream"], each), ()) for each in rests_on(alert)))
            for each in rules:
                met[each] = met.get(each, 0) + 1
        found.append(ShadowComparison(name, side, dict(sorted(met.items(), key=lambda item: (-item[1], item[0])))))
    return found
