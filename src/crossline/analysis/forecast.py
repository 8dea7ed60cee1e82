"""Alerts a day that the past foretells, with the interval in which a day's count is to lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_Z = 1.959964  # 95 % of a normal distribution


@dataclass(frozen=True, slots=True)
class DailyForecast:
    """Of a day: how many alerts, and from how many to how many in 95 of 100 days. ``days``: of the past it rests on."""

    per_day: float
    low: float
    high: float
    days: float

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {name: round(getattr(self, name), 3) for name in ("per_day", "low", "high", "days")}


def forecast(counts: Sequence[int], days: float) -> DailyForecast:
    """From the days of a backtest.

    Args:
        counts: Alerts of each day of the past, days without one among them.
        days: How long the past is, in days; the first and the last of ``counts`` may be parts of a day.

    Days scatter at least as counts of rare events do (their variance is their mean), or as these days did; that the
    mean is known from so many days alone makes the interval wider. Of less than two days there is no scatter: then it
    is that of rare events.

    >>> forecast([4, 4, 4, 4], 4.0).to_json()
    {'per_day': 4.0, 'low': 0.0, 'high': 8.383, 'days': 4.0}
    """
    _checked(days)
    return _ahead(counts, days, max(sum(counts) / days, 1 / days))


def forecast_sum(sums: Sequence[float], squares: float, days: float) -> DailyForecast:
    """The same of an amount that each alert has, such as money, summed over a day.

    Args:
        sums: The sum of each day of the past, days without an alert among them.
        squares: The sum of the squares of all amounts.
        days: How long the past is, in days.

    Days scatter at least as sums over rare events do: their variance is the rate times the mean square of an amount.

    >>> forecast_sum([40.0, 40.0, 40.0, 40.0], 1600.0, 4.0).to_json()  # 4 alerts of 10 a day
    {'per_day': 40.0, 'low': 0.0, 'high': 83.826, 'days': 4.0}
    """
    _checked(days)
    return _ahead(sums, days, squares / days)


def _checked(days: float) -> None:
    if days <= 0:
        raise ValueError(f"found a past of {days} days; expected some time")


def _ahead(sums: Sequence[float], days: float, least: float) -> DailyForecast:
    """``least``: the variance that days have at least."""
    mean, variance = sum(sums) / days, least
    if len(sums) >= 2 and days >= 2:
        middle = sum(sums) / len(sums)
        variance = max(variance, sum((each - middle) ** 2 for each in sums) / (len(sums) - 1))
    half = _Z * math.sqrt(variance * (1 + 1 / days))
    return DailyForecast(mean, max(0.0, mean - half), mean + half, days)
