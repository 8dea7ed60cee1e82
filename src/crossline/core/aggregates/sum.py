"""``sum``: of integers exact, of floats the real sum, rounded once."""

from __future__ import annotations

import math

from crossline.core.figures.aggregate import Aggregate, Asked, Bounds, Scanned, Words
from crossline.core.figures.exact import loose, total


def _naive(window: Scanned) -> int | float:
    return total(window.values) if window.real else sum(window.values)


def _bounds(asked: Asked) -> Bounds:
    if asked.kind is None:
        return Bounds()
    least = asked.low if asked.own and asked.low >= 0 else 0
    most = asked.high if asked.own and asked.high <= 0 else 0
    ends = (least if asked.low >= 0 else -math.inf, most if asked.high <= 0 else math.inf)
    return Bounds(asked.kind, False, *(ends if asked.whole else loose(*ends)))


AGGREGATE = Aggregate(
    name="sum",
    place=50,
    means="The field that is summed.",
    gives="field",
    words=Words("the sum of {field} of {records}", before="sum of {field} "),
    naive=_naive,
    bounds=_bounds,
    window=("sum",),
    pane=("sum",),
    sortable=True,
)
