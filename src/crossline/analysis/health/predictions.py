"""Checks of the predictions of a backtest against what was observed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.shares import Precision, difference

Figure = Literal["alerts", "money", "precision"]


@dataclass(frozen=True, slots=True)
class PredictionCheck:
    """The check of a predicted figure. ``low`` to ``high``: the predicted interval; ``came``: the observed value.

    ``came`` is None before the first observation. ``of``: the number of whole days, or of labels, behind ``came``.
    ``beyond``: whether it lies outside of the interval.
    """

    figure: Figure
    predicted: float
    low: float
    high: float
    came: float | None
    of: int
    beyond: bool


def mean_interval(ahead: DailyForecast, days: int) -> tuple[float, float]:
    """The 95 % interval of the mean of so many days, from that of one day.

    The half of a day's interval is z * s * sqrt(1 + 1/past), that of the mean of n days z * s * sqrt(1/n + 1/past).

    >>> ahead = DailyForecast(per_day=10.0, low=2.0, high=18.0, days=4.0)
    >>> [round(each, 3) for each in mean_interval(ahead, 4)]  # 8 * sqrt(0.5 / 1.25) is 5.06
    [4.94, 15.06]
    """
    half = (ahead.high - ahead.per_day) * math.sqrt((1 / days + 1 / ahead.days) / (1 + 1 / ahead.days))
    return max(0.0, ahead.per_day - half), ahead.per_day + half


def check_mean(figure: Literal["alerts", "money"], ahead: DailyForecast, days: Sequence[float]) -> PredictionCheck:
    """Check the mean of whole days against the forecast of a day.

    Args:
        figure: Which figure.
        ahead: The forecast of the backtest.
        days: The observed values, one per whole day.
    """
    if not days:
        return PredictionCheck(figure, ahead.per_day, ahead.low, ahead.high, None, 0, beyond=False)
    low, high = mean_interval(ahead, len(days))
    came = sum(days) / len(days)
    return PredictionCheck(figure, ahead.per_day, low, high, came, len(days), beyond=not low <= came <= high)


def check_precision(ahead: Precision, came: Precision) -> PredictionCheck | None:
    """Check precision against that of the backtest; None if the backtest had too few labels.

    It is beyond if the interval of the difference excludes 0.
    """
    value, interval = ahead.value, ahead.interval
    if value is None or interval is None:
        return None
    low, high = difference(came, ahead) if came.enough else (0.0, 0.0)
    return PredictionCheck(
        figure="precision",
        predicted=value,
        low=interval[0],
        high=interval[1],
        came=came.value,
        of=int(came.labels),
        beyond=low > 0 or high < 0,
    )
