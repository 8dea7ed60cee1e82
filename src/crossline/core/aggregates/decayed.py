"""``decayed``: a sum whose values count half after each half life; rules write it as ``risk``."""

from __future__ import annotations

import math

from crossline.core.figures.aggregate import Aggregate, Scanned, Words


def _naive(window: Scanned) -> float:
    ages = [(window.now_ms - clock_ms) / window.half_life_ms for clock_ms in window.clocks_ms]
    return math.fsum(value * 2.0**-age for value, age in zip(window.values, ages, strict=True))


AGGREGATE = Aggregate(
    name="decayed",
    place=140,
    means="The sum of a field's values, each halved every half life.",
    words=Words("the risk score, of the scores of {records}, each halved every {half_life},"),
    naive=_naive,
    window=("decayed",),
    pane=None,
    limits="panes do not know when their records came",
    hidden=True,
)
