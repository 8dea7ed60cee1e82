"""``entropy``: of a field's values, in bits: 0 where all are the same, log2(n) where n of them are all different."""

from __future__ import annotations

import math
from collections import Counter

from crossline.programs.aggregate import Aggregate, Bounds, Scanned, Words
from crossline.programs.tools import Compiled, Tools


def _naive(window: Scanned) -> float:
    """Shannon's, as the average of log2(1 / how large a part of all the value is)."""
    n = len(window.values)
    return math.fsum(times * math.log2(n / times) for times in Counter(window.values).values()) / n


def _value(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    put, add = tools.put_real, tools.pair_add
    first, following, times_of = tools.first_value, tools.next_value, tools.times

    def value(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        bits, rest = 0.0, 0.0  # a pair: whatever order values come in, it is the same
        place = first(h, at, c, g, extra)
        while place >= 0:
            times = times_of(h, at, c, g, place, extra)
            if times > 0:
                bits, rest = add(bits, rest, times * math.log2(n / times), 0.0)
            place = following(h, at, c, g, place, extra)
        put(h, bits / n)

    return value


AGGREGATE = Aggregate(
    name="entropy",
    place=126,
    means="The field whose values' entropy it is, in bits: 0 where all are the same, 1 where two come equally often, "
    "log2(n) where n records all have different ones.",
    takes="values",
    least=1,
    words=Words("the entropy of {field} of {records}", before="entropy of {field} ", after=" bits"),
    naive=_naive,
    value=_value,
    bounds=lambda _: Bounds(low=0),
    window=("different",),
    pane=("tally",),
    sketch_error=0.005,  # of up to 10,000 different values, of which a few share a bucket
)
