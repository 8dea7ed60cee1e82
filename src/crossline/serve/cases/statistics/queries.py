"""Reads what was counted of rules: sums by rule and day, however many alerts they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crossline.analysis.health.delays import Cell
from crossline.basics.texts.money import digits_of, sums_text
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.statistics.schema import DAY_MS, HOUR_MS

DAYS, LABEL_DAYS, WEEK = 28, 90, 7
_DAYS = "SELECT rule_id, version, kind, day, alerts, retracted, hidden, amount FROM rule_days WHERE day >= ?"
_OF_VERSION = """SELECT day, sum(alerts) FROM rule_days WHERE day >= ? AND rule_id = ? AND version = ?
AND kind IN ('alert', 'shadow') GROUP BY day"""
_LATELY = "SELECT rule_id, kind, hour, alerts FROM rule_hours WHERE hour > ? AND hour <= ?"
_VALUES = """SELECT rule_id, version, day > ? AS now, bucket, sum(alerts) FROM rule_values WHERE day > ? AND day <= ?
GROUP BY 1, 2, 3, 4"""
_PAIRS = """SELECT rule_id, other, sum(records), sum(entities), sum(led) FROM rule_pairs WHERE day > ?
GROUP BY 1, 2"""
_COOLED = "SELECT rule_id, other, sum(records) FROM rule_cooled WHERE day > ? GROUP BY 1, 2"
_LABELS = """SELECT rule_id, version, kind, is_fraud, day, sum(alerts), sum(alerts) FILTER (WHERE label_day < :today)
FROM rule_labels WHERE day > :since GROUP BY 1, 2, 3, 4, 5"""
_FRAUD = """SELECT rule_id, kind, currency, sum(amount) FROM rule_labels WHERE day > ? AND is_fraud = 1
GROUP BY 1, 2, 3 HAVING sum(alerts) > 0"""
_DELAYS = """SELECT is_fraud, day, max(label_day - day, 0), sum(alerts) FROM rule_labels
WHERE day > ? AND label_day < ? GROUP BY 1, 2, 3"""

Which = tuple[str, int, str]  # a rule, its version, the kind of its alerts


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Labels of a version's alerts. ``whole``: of days that are over, by verdict and age of the alerts in days."""

    true: int = 0
    labels: int = 0
    whole: tuple[Cell, ...] = ()


@dataclass(slots=True)
class RuleCounts:
    """What was counted, of the past 28 days and today; labels of the past 90 days.

    ``since_day``: from when on anything was; None: nothing yet. ``today``: the day of the epoch. ``days``: by day how
    many alerts came, were retracted, were hidden by suppressions. ``lately``: the past 24 hours, an hour each, the
    oldest first. ``money``: by day the money of the records that alerts are on. ``figures``: alerts by bucket of their
    figure, of the week before and of the past seven days. ``pairs``: of the past seven days, by the other rule:
    records, entities, and records whose decision rests on the other first. ``cooled``: of the same days, records on
    which a rule's cooldown held its alert back (by itself), and records of its alerts whose decision rests first on
    another, which was in its cooldown. ``fraud``: money by currency.
    ``delays``: labels of all rules.
    """

    today: int
    since_day: int | None = None
    days: dict[Which, dict[int, tuple[int, int, int]]] = field(default_factory=dict)
    lately: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    money: dict[Which, dict[int, float]] = field(default_factory=dict)
    figures: dict[tuple[str, int], tuple[dict[int, int], dict[int, int]]] = field(default_factory=dict)
    pairs: dict[str, dict[str, tuple[int, int, int]]] = field(default_factory=dict)
    cooled: dict[str, dict[str, int]] = field(default_factory=dict)
    verdicts: dict[Which, Verdicts] = field(default_factory=dict)
    fraud: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    delays: list[Cell] = field(default_factory=list)


@dataclass(slots=True)
class Slow:
    """What changes little within a minute, as in ``RuleCounts``."""

    figures: dict[tuple[str, int], tuple[dict[int, int], dict[int, int]]] = field(default_factory=dict)
    pairs: dict[str, dict[str, tuple[int, int, int]]] = field(default_factory=dict)
    cooled: dict[str, dict[str, int]] = field(default_factory=dict)
    delays: list[Cell] = field(default_factory=list)


def read_slow(file: CaseFile, now_ms: int) -> Slow:
    """Figures, pairs and delays. Raises RetryableError if the file cannot be read now."""
    today, found = now_ms // DAY_MS, Slow()
    for rule, version, now, bucket, count in file.rows(_VALUES, (today - WEEK, today - 2 * WEEK, today)):
        found.figures.setdefault((rule, version), ({}, {}))[now][bucket] = count
    for rule, other, *counts in file.rows(_PAIRS, (today - WEEK,)):
        found.pairs.setdefault(rule, {})[other] = (counts[0], counts[1], counts[2])
    for rule, other, records in file.rows(_COOLED, (today - WEEK,)):
        found.cooled.setdefault(rule, {})[other] = records
    found.delays = [
        Cell(bool(fraud), today - day, delay, count)
        for fraud, day, delay, count in file.rows(_DELAYS, (today - LABEL_DAYS, today))
    ]
    return found


def read_counts(file: CaseFile, now_ms: int, slow: Slow | None = None) -> RuleCounts:
    """All of it, of one moment; with ``slow`` that part is not read. Raises RetryableError as ``read_slow``."""
    today, hour = now_ms // DAY_MS, now_ms // HOUR_MS
    found = RuleCounts(today)
    with file.reading():
        for row in file.rows("SELECT min(day) AS day FROM rule_days"):
            found.since_day = row["day"]
        for rule, version, kind, day, alerts, retracted, hidden, amount in file.rows(_DAYS, (today - DAYS,)):
            found.days.setdefault((rule, version, kind), {})[day] = (alerts, retracted, hidden)
            if amount:
                found.money.setdefault((rule, version, kind), {})[day] = amount
        for rule, kind, at, count in file.rows(_LATELY, (hour - 24, hour)):
            found.lately.setdefault((rule, kind), [0] * 24)[at - hour + 23] += count
        _labels(file, found, today)
        slow = read_slow(file, now_ms) if slow is None else slow
    found.figures, found.pairs, found.cooled, found.delays = slow.figures, slow.pairs, slow.cooled, slow.delays
    return found


def read_days(file: CaseFile, rule_id: str, version: int, first: int) -> tuple[int | None, dict[int, int]]:
    """From which day on anything was counted, None if nothing was; by day alerts of a version from ``first`` on.

    Raises RetryableError if the file cannot be read now.
    """
    with file.reading():
        (begun,) = file.rows("SELECT min(day) AS day FROM rule_days")
        return begun["day"], dict(map(tuple, file.rows(_OF_VERSION, (first, rule_id, version))))


def _labels(file: CaseFile, found: RuleCounts, today: int) -> None:
    since = today - LABEL_DAYS
    sums: dict[Which, tuple[list[int], list[Cell]]] = {}
    for rule, version, kind, fraud, day, count, whole in file.rows(_LABELS, {"today": today, "since": since}):
        labels, cells = sums.setdefault((rule, version, kind), ([0, 0], []))
        labels[fraud] += count
        if whole:
            cells.append(Cell(bool(fraud), today - day, 0, whole))
    for which, ((good, true), cells) in sums.items():
        found.verdicts[which] = Verdicts(true, good + true, tuple(cells))
    for rule, kind, currency, amount in file.rows(_FRAUD, (since,)):
        found.fraud.setdefault((rule, kind), {})[currency] = amount


def money_text(amounts: Mapping[str, float]) -> str:
    """Sums by currency, as text; those are left out of which nothing is left in the digits of the currency.

    >>> money_text({"EUR": 1204.5, "": 0.0, "JPY": 98000.0})
    'EUR 1,204.50, JPY 98,000'
    """
    left = [(name, round(amount, digits_of(name))) for name, amount in sorted(amounts.items())]
    return sums_text((name, amount if name else f"{amount:.2f}") for name, amount in left if amount)
