"""Whether an objective is kept, what is left of its error budget, how fast it burns. Counts in, verdicts out.

The terms, and the four pairs of windows for alerts, are those of Google's Site Reliability Workbook, chapter 5,
"Alerting on SLOs" (the sixth way there: several windows, several burn rates).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

HOUR, DAY = 60, 24 * 60
WINDOWS = {"1h": HOUR, "24h": DAY, "30d": 30 * DAY}  # minutes
PERIOD = "30d"  # what the budget is for
Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What was counted: ``good`` of ``total``, in ``minutes`` minutes that are known."""

    good: int = 0
    total: int = 0
    minutes: int = 0


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """How an objective did within a window of ``minutes``.

    ``share``: of good; None where nothing was counted. ``unknown``: minutes of which nothing is known; they are
    neither good nor bad. ``kept``: None where that is unknown: nothing was counted, or less than half of the window
    is known and what is known is good. ``budget_left``: 1 untouched, 0 used up, less where more failed than may.
    ``burn_rate``: 1 uses the budget up in just the window.
    """

    counts: EventCounts
    minutes: int
    share: Fraction | None
    kept: bool | None
    budget_left: Fraction | None
    burn_rate: Fraction | None

    @property
    def unknown(self) -> int:
        """Minutes of which nothing is known."""
        return self.minutes - self.counts.minutes


def verdict(counts: EventCounts, target: Fraction, minutes: int) -> WindowVerdict:
    """What ``counts`` within a window of ``minutes`` say of an objective of at least ``target``.

    Example:
        >>> found = verdict(Counts(good=9_995, total=10_000, minutes=60), Fraction(999, 1000), 60)
        >>> found.kept, float(found.budget_left), float(found.burn_rate)
        (True, 0.5, 0.5)
    """
    if not counts.total:
        return WindowVerdict(counts, minutes, None, None, None, None)
    share = Fraction(counts.good, counts.total)
    burn_rate = (1 - share) / (1 - target)
    kept: bool | None = share >= target
    if kept and 2 * counts.minutes < minutes:
        kept = None
    return WindowVerdict(counts, minutes, share, kept, 1 - burn_rate, burn_rate)


@dataclass(frozen=True, slots=True)
class WindowPair:
    """Windows in both of which the budget burns ``factor`` times as fast as it may: then there is an alert.

    ``long``, ``short``: as Prometheus writes them, with their ``minutes``.
    """

    severity: Severity
    long: str
    short: str
    factor: Fraction
    minutes: tuple[int, int]

    @property
    def spent(self) -> Fraction:
        """The share of the 30 days' budget that is gone when the long window is full."""
        return self.factor * self.minutes[0] / WINDOWS[PERIOD]


# Table 5-8 there: two for who is on call, two for a ticket.
PAIRS = (
    WindowPair("critical", "1h", "5m", Fraction("14.4"), (HOUR, 5)),
    WindowPair("critical", "6h", "30m", Fraction(6), (6 * HOUR, 30)),
    WindowPair("warning", "1d", "2h", Fraction(3), (DAY, 2 * HOUR)),
    WindowPair("warning", "3d", "6h", Fraction(1), (3 * DAY, 6 * HOUR)),
)


def burns(pair: WindowPair, long: WindowVerdict, short: WindowVerdict) -> bool:
    """Whether the budget burns at the rate of ``pair`` or faster, by what is known."""
    rates = (long.burn_rate, short.burn_rate)
    return all(each is not None and each > pair.factor for each in rates)


def minutes_left(period: WindowVerdict, day: WindowVerdict) -> int | None:
    """Minutes until the budget is used up at the pace of the last day; None where it is not within 30 days.

    ``period``: of 30 days.
    """
    left, rate = period.budget_left, day.burn_rate
    if left is None or rate is None or left <= 0 or rate <= 0:
        return None
    minutes = int(left * WINDOWS[PERIOD] / rate)
    return minutes if minutes < WINDOWS[PERIOD] else None
