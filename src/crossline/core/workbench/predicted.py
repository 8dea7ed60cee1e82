"""Alerts a day that the past foretells, with the interval in which a day's count is to lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_Z = 1.959964  # 95 % of a normal distribution


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of a day: how many alerts, and from how many to how many in 95 of 100 days. ``days``: of the past it rests on."""

    per_day: float
    low: float
    high: float
    days: float

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {name: round(getattr(self, name), 3) for name in ("per_day", "low", "high", "days")}


def predicted(counts: Sequence[int], days: float) -> Predicted:
    """From the days of a backtest.

    Args:
        counts: Alerts of each day of the past, days without one among them.
        days: How long the past is, in days; the first and the last of ``counts`` may be parts of a day.

    Days scatter at least as counts of rare events do (their variance is their mean), or as these days did; that the
    mean is known from so many days alone makes the interval wider. Of less than two days there is no scatter: then it
    is that of rare events.

    >>> predicted([4, 4, 4, 4], 4.0).to_json()
    {'per_day': 4.0, 'low': 0.0, 'high': 8.383, 'days': 4.0}
    """
    if days <= 0:
        raise ValueError(f"found a past of {days} days; expected some time")
    mean = sum(counts) / days
    variance = max(mean, 1 / days)
    if len(counts) >= 2 and days >= 2:
        middle = sum(counts) / len(counts)
        variance = max(variance, sum((each - middle) ** 2 for each in counts) / (len(counts) - 1))
    half = _Z * math.sqrt(variance * (1 + 1 / days))
    return Predicted(mean, max(0.0, mean - half), mean + half, days)
