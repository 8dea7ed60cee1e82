"""``decayed``: a sum whose values count half after each half life; rules write it as ``risk``."""

from __future__ import annotations

import math

from crossline.programs.aggregate import Aggregate, Scanned, Words
from crossline.programs.tools import Compiled, Tools


def _naive(window: Scanned) -> float:
    ages = [(window.now_ms - clock_ms) / window.half_life_ms for clock_ms in window.clocks_ms]
    return math.fsum(value * 2.0**-age for value, age in zip(window.values, ages, strict=True))


def _value(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    put, decayed = tools.put_real, tools.decayed

    def value(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:
        put(h, decayed(h, at, c, g, i, extra) if n else 0.0)

    return value


AGGREGATE = Aggregate(
    name="decayed",
    place=140,
    means="The sum of a field's values, each halved every half life.",
    words=Words("the risk score, of the scores of {records}, each halved every {half_life},"),
    naive=_naive,
    value=_value,
    window=("decayed",),
    pane=None,
    limits="panes do not know when their records came",
    hidden=True,
)
