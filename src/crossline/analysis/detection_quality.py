"""What alerts caught: the records that they rest on, held against other alerts and against labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Alert = Mapping[str, Any]


def rests_on(alert: Alert) -> set[str]:
    """The ids of the records that an alert rests on, as far as it names them: its own, and those of its evidence."""
    return {alert["record_id"], *(alert.get("evidence") or {}).get("record_ids", ())}


@dataclass(frozen=True, slots=True)
class FraudLabels:
    """What was fraud. ``frauds``: by record id, the frauds that it is part of; a record that has none is no fraud.

    ``asked``: the frauds that are to be found. ``named``: how many records the labels speak of. ``good``: the records
    that labels say are no fraud; empty where they name frauds alone.
    """

    frauds: Mapping[str, frozenset[str]]
    asked: frozenset[str]
    named: int
    good: frozenset[str] = frozenset()

    def verdict(self, record_id: str) -> bool | None:
        """Whether a record is fraud; None where nobody said. Where frauds alone are named, all others are none."""
        if self.frauds.get(record_id):
            return True
        return False if not self.good or record_id in self.good else None


@dataclass(frozen=True, slots=True)
class DetectionQuality:
    """How well alerts find what was fraud.

    ``true``: alerts that rest on a record of a fraud. ``caught``: the frauds that such an alert has. Money is the sum
    of the amounts of records: of frauds that were caught, of those that were not, and of the records at which alerts
    fired that rest on no fraud; None where no amount was asked for.
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
        """The share of alerts that are true; None where there is none."""
        return self.true / self.alerts if self.alerts else None

    @property
    def recall(self) -> float | None:
        """The share of frauds that were caught; None where there is none."""
        return len(self.caught) / self.frauds if self.frauds else None

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where one of them is 0, or nothing is there to be found."""
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
    """``alerts`` against ``marks``; ``amounts``: by record id."""
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
    money: Sequence[float | None] = (None, None, None)
    if amounts is not None:
        asked = {each: amounts.get(each, 0) for each, frauds in marks.frauds.items() if frauds & marks.asked}
        stopped = sum(amount for each, amount in asked.items() if marks.frauds[each] & caught)
        money = (stopped, sum(asked.values()) - stopped, sum(amounts.get(each, 0) for each in false_at))
    return DetectionQuality(count, true, len(marks.asked), frozenset(caught), *money)


@dataclass(frozen=True, slots=True)
class AlertSetComparison:
    """One of two sets of alerts. ``shared``: those that rest on a record that an alert of the other rests on, too.

    ``caught_alone``: frauds that only this one caught; ``weighed``: None without labels.
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
        """Alerts a day of the records' own time."""
        return self.alerts / self.days

    def as_json(self) -> dict[str, Any]:
        """For programs; a few of the alerts that only this one has."""
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
    """Two sets of alerts against each other; ``days``: how long the records are that they are of."""
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
    """A shadow rule next to the active ones. ``with_rules``: by active rule, how many of its alerts share a record."""

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
    """Each rule of ``shadow`` against all others that have alerts, by name; one without an alert is there, too."""
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
