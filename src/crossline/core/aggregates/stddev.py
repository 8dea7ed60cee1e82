"""``stddev``: the sample standard deviation; infinite where it is beyond the greatest float."""

from __future__ import annotations

import math
import statistics

from crossline.core.figures.aggregate import Aggregate, Bounds, Scanned, Words


def _naive(window: Scanned) -> float:
    try:
        return statistics.stdev(window.values)
    except OverflowError:
        return math.inf


AGGREGATE = Aggregate(
    name="stddev",
    place=90,
    means="The field whose sample standard deviation it is.",
    least=2,
    words=Words("the standard deviation of {field} of {records}", before="standard deviation of {field} "),
    naive=_naive,
    bounds=lambda _: Bounds(low=0),
    window=("squares",),
    pane=("stddev",),
    rounding=1e-14,
)
