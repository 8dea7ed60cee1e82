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
    """How a rule fires. ``state``: empty where nothing is wrong. ``days``: for how many days that is so.

    ``times``: of a flood, how many times the alerts that were due came.
    """

    state: Literal["", "silent", "floods"] = ""
    days: int = 0
    times: float = 0.0


def usual(days: Sequence[int]) -> DailyForecast | None:
    """What the rule's own past foretells of a day, the last seven days left out; None where that past is too short.

    Args:
        days: Alerts of whole days, the oldest first.

    >>> usual([3] * 14).per_day, usual([3] * 13)
    (3.0, None)
    """
    past = days[:-LATELY_DAYS]
    return forecast(past, float(len(past))) if len(past) >= PAST_DAYS_MIN else None


def rhythm(days: Sequence[int], today: int, last_24h: int, due: DailyForecast | None) -> Rhythm:
    """Whether a rule is silent or floods.

    Silent: no alert for so many whole days that it would happen once in 100 times if alerts came by chance at the rate
    that is due (Poisson: e to the minus rate times days), and longer than any pause before. Floods: more alerts in
    24 hours than the upper end of a day's interval.

    Args:
        days: Alerts of whole days, the oldest first.
        today: Alerts of today, which is not over.
        last_24h: Alerts of the past 24 hours.
        due: What was foretold of a day; None: nothing.

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
