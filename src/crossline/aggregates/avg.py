"""``avg``: of integers the exact average, rounded once; of floats the rounded sum over the count."""

from __future__ import annotations

from crossline.programs.aggregate import Aggregate, Bounds, BoundsRequest, Scanned, Words
from crossline.programs.exact import average, loose
from crossline.programs.tools import Compiled, Tools


def _naive(window: Scanned) -> float:
    return average(window.values, real=window.real)


def _bounds(request: BoundsRequest) -> Bounds:
    if request.kind is None:
        return Bounds()
    # Of whole numbers it is the exact one, rounded once, which passes no bound that is rounded too.
    whole = (float(request.low), float(request.high))
    return Bounds("number", not request.own, *(whole if request.whole else loose(request.low, request.high)))


def _value(tools: Tools, real: bool) -> Compiled:
    put = tools.put_real
    if real:
        real_sum, real_mean = tools.real_sum, tools.real_mean

        def of_reals(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
            put(h, real_mean(h, at, c, g, extra, n, real_sum(h, at, c, g, extra)))

        return of_reals
    whole_sum, whole_mean = tools.whole_sum, tools.whole_mean

    def of_integers(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        low, up = whole_sum(h, at, c, g, extra)
        put(h, whole_mean(h, low, up, n))

    return of_integers


AGGREGATE = Aggregate(
    name="avg",
    place=60,
    means="The field whose average it is.",
    least=1,
    words=Words("the average of {field} of {records}", before="average of {field} "),
    naive=_naive,
    value=_value,
    bounds=_bounds,
    window=("sum",),
    pane=("sum",),
    sortable=True,
)
