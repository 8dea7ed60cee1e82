"""Rules that are silent though alerts are due, and rules that flood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crossline.analysis.forecast import DailyForecast, forecast

SILENT_CHANCE = 0.01
LATELY_DAYS, PAST_DAYS_MIN = 7, 7
FLOOD_MIN = 5  # alerts of a day that may be a flood


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The firing rhythm of a rule. ``state``: empty if it is normal. ``days``: the length of the state, in days.

    ``times``: of a flood, the ratio of alerts to the expected number.
    """

    state: Literal["", "silent", "floods"] = ""
    days: int = 0
    times: float = 0.0


def usual(days: Sequence[int]) -> DailyForecast | None:
    """The forecast of a day from the rule's own history without the last seven days; None if that is too short.

    Args:
        days: Alerts of whole days, the oldest first.

    >>> usual([3] * 14).per_day, usual([3] * 13)
    (3.0, None)
    """
    past = days[:-LATELY_DAYS]
    return forecast(past, float(len(past))) if len(past) >= PAST_DAYS_MIN else None


def rhythm(days: Sequence[int], today: int, last_24h: int, due: DailyForecast | None) -> Rhythm:
    """Whether a rule is silent or floods.

    Silent: no alert for so many whole days that the probability is at most 1 % for a Poisson process of the expected
    rate (e to the minus rate times days), and longer than any earlier pause. Floods: more alerts in 24 hours than the
    upper end of a day's interval.

    Args:
        days: Alerts of whole days, the oldest first.
        today: Alerts of today, which is not over.
        last_24h: Alerts of the past 24 hours.
        due: The forecast of a day; None: unknown.

    >>> due = forecast([2] * 28, 28.0)
    >>> rhythm([2] * 25 + [0] * 3, 0, 0, due)
    Rhythm(state='silent', days=3, times=0.0)
    >>> rhythm([2] * 27 + [20], 1, 20, due)
    Rhythm(state='floods', days=1, times=10.0)
    """
    if due is None:
        return Rhythm()
    pause = _pause(days)
    chance = math.exp(-due.per_day * pause)
    if not today and not last_24h and pause and chance < SILENT_CHANCE and pause > _longest(days[:-pause]):
        return Rhythm("silent", pause)
    if last_24h > due.high and last_24h >= FLOOD_MIN:
        since = 0
        while since < len(days) and days[-1 - since] > due.high:
            since += 1
        return Rhythm("floods", since, last_24h / due.per_day if due.per_day else 0.0)
    return Rhythm()


def _pause(days: Sequence[int]) -> int:
    """Days without an alert at the end."""
    return next((place for place, count in enumerate(reversed(days)) if count), len(days))


def _longest(days: Sequence[int]) -> int:
    """The longest run of days without an alert."""
    longest = run = 0
    for count in days:
        run = 0 if count else run + 1
        longest = max(longest, run)
    return longest
