"""``sum``: of integers exact, of floats the real sum, rounded once."""

from __future__ import annotations

import math

from crossline.programs.aggregate import Aggregate, Bounds, BoundsRequest, Scanned, Words
from crossline.programs.exact import loose, total
from crossline.programs.tools import Compiled, Tools


def _naive(window: Scanned) -> int | float:
    return total(window.values) if window.real else sum(window.values)


def _bounds(request: BoundsRequest) -> Bounds:
    if request.kind is None:
        return Bounds()
    least = request.low if request.own and request.low >= 0 else 0
    most = request.high if request.own and request.high <= 0 else 0
    ends = (least if request.low >= 0 else -math.inf, most if request.high <= 0 else math.inf)
    return Bounds(request.kind, False, *(ends if request.whole else loose(*ends)))


def _value(tools: Tools, real: bool) -> Compiled:
    if real:
        put_real, real_sum = tools.put_real, tools.real_sum

        def of_reals(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
            put_real(h, real_sum(h, at, c, g, extra))

        return of_reals
    put_wide, whole_sum = tools.put_wide, tools.whole_sum

    def of_integers(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        low, up = whole_sum(h, at, c, g, extra)
        put_wide(h, low, up)

    return of_integers


AGGREGATE = Aggregate(
    name="sum",
    place=50,
    means="The field that is summed.",
    gives="field",
    words=Words("the sum of {field} of {records}", before="sum of {field} "),
    naive=_naive,
    value=_value,
    bounds=_bounds,
    window=("sum",),
    pane=("sum",),
    sortable=True,
)
