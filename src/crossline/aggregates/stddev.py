"""``stddev``: the sample standard deviation; infinite where it is beyond the greatest float."""

from __future__ import annotations

import math
import statistics

from crossline.programs.aggregate import Aggregate, Bounds, Scanned, Words
from crossline.programs.tools import Compiled, Tools


def _naive(window: Scanned) -> float:
    try:
        spread: float = statistics.stdev(window.values)
    except OverflowError:
        return math.inf
    return spread


def _value(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    put, spread = tools.put_rough, tools.spread

    def value(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        deviation, off = spread(h, at, c, g, extra, n)
        put(h, deviation, off)

    return value


AGGREGATE = Aggregate(
    name="stddev",
    place=90,
    means="The field whose sample standard deviation it is.",
    least=2,
    words=Words("the standard deviation of {field} of {records}", before="standard deviation of {field} "),
    naive=_naive,
    value=_value,
    bounds=lambda _: Bounds(low=0),
    window=("squares",),
    pane=("stddev",),
    rounding=1e-14,
)
