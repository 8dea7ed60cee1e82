"""``avg``: of integers the exact average, rounded once; of floats the rounded sum over the count."""

from __future__ import annotations

from crossline.core.figures.aggregate import Aggregate, Asked, Bounds, Scanned, Words
from crossline.core.figures.exact import average, loose


def _naive(window: Scanned) -> float:
    return average(window.values, real=window.real)


def _bounds(asked: Asked) -> Bounds:
    if asked.kind is None:
        return Bounds()
    # Of whole numbers it is the exact one, rounded once, which passes no bound that is rounded too.
    whole = (float(asked.low), float(asked.high))
    return Bounds("number", not asked.own, *(whole if asked.whole else loose(asked.low, asked.high)))


AGGREGATE = Aggregate(
    name="avg",
    place=60,
    means="The field whose average it is.",
    least=1,
    words=Words("the average of {field} of {records}", before="average of {field} "),
    naive=_naive,
    bounds=_bounds,
    window=("sum",),
    pane=("sum",),
    sortable=True,
)
