"""Forecast of the alerts per day from history, with a prediction interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_Z = 1.959964  # 95 % of a normal distribution


@dataclass(frozen=True, slots=True)
class DailyForecast:
    """The forecast of a day: the mean, and the 95 % prediction interval. ``days``: the length of the history."""

    per_day: float
    low: float
    high: float
    days: float

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON."""
        return {name: round(getattr(self, name), 3) for name in ("per_day", "low", "high", "days")}


def forecast(counts: Sequence[int], days: float) -> DailyForecast:
    """Forecast the alerts per day from the days of a backtest.

    Args:
        counts: Alerts of each day of the history, days without alerts included.
        days: The length of the history, in days; the first and the last of ``counts`` may be parts of a day.

    The variance of a day is that of a Poisson count (its mean), or the sample variance if that is larger. The interval
    is wider for a short history, since the mean is an estimate. With less than two days, the Poisson variance is used.

    >>> forecast([4, 4, 4, 4], 4.0).to_json()
    {'per_day': 4.0, 'low': 0.0, 'high': 8.383, 'days': 4.0}
    """
    _checked(days)
    return _ahead(counts, days, max(sum(counts) / days, 1 / days))


def forecast_sum(sums: Sequence[float], squares: float, days: float) -> DailyForecast:
    """Forecast the daily sum of an amount of each alert, such as money.

    Args:
        sums: The sum of each day of the history, days without alerts included.
        squares: The sum of the squares of all amounts.
        days: The length of the history, in days.

    The variance of a day is at least that of a compound Poisson sum: the rate times the mean square of an amount.

    >>> forecast_sum([40.0, 40.0, 40.0, 40.0], 1600.0, 4.0).to_json()  # 4 alerts of 10 a day
    {'per_day': 40.0, 'low': 0.0, 'high': 83.826, 'days': 4.0}
    """
    _checked(days)
    return _ahead(sums, days, squares / days)


def _checked(days: float) -> None:
    if days <= 0:
        raise ValueError(f"found a past of {days} days; expected some time")


def _ahead(sums: Sequence[float], days: float, least: float) -> DailyForecast:
    """The forecast; ``least``: the lower bound of the variance of a day."""
    mean, variance = sum(sums) / days, least
    if len(sums) >= 2 and days >= 2:
        middle = sum(sums) / len(sums)
        variance = max(variance, sum((each - middle) ** 2 for each in sums) / (len(sums) - 1))
    half = _Z * math.sqrt(variance * (1 + 1 / days))
    return DailyForecast(mean, max(0.0, mean - half), mean + half, days)
