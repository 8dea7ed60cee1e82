"""``range``: the greatest value of a field less the least."""

from __future__ import annotations

import math
from typing import Any

from crossline.programs.aggregate import Aggregate, Bounds, BoundsRequest, Scanned, Words
from crossline.programs.exact import loose
from crossline.programs.tools import Compiled, Tools

LEAST, GREATEST = 0, 1  # of what is kept
MOST = 2**63 - 1


def _naive(window: Scanned) -> Any:
    return max(window.values) - min(window.values)


def _bounds(request: BoundsRequest) -> Bounds:
    if request.kind is None:
        return Bounds(low=0)
    most = request.high - request.low
    if not math.isfinite(most):
        most = math.inf
    return Bounds(
        "integer" if request.whole else "number", not request.own, 0, most if request.whole else loose(0, most)[1]
    )


def _value(tools: Tools, real: bool) -> Compiled:
    if real:
        put_real, real_of = tools.put_real, tools.real_of

        def of_reals(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
            put_real(h, real_of(h, at, c, g, GREATEST, extra, n) - real_of(h, at, c, g, LEAST, extra, n))

        return of_reals
    put_wide, integer_of = tools.put_wide, tools.integer_of

    def of_integers(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        least, greatest = integer_of(h, at, c, g, LEAST, extra, n), integer_of(h, at, c, g, GREATEST, extra, n)
        beyond = least < 0 and greatest > least + MOST  # 64 bits then lack 2^64
        put_wide(h, greatest - least, 1 if beyond else 0)

    return of_integers


AGGREGATE = Aggregate(
    name="range",
    place=122,
    means="The field whose greatest value less its least it is.",
    takes="ordered",
    gives="difference",
    least=1,
    words=Words("the range (greatest less least) of {field} of {records}", before="range of {field} "),
    naive=_naive,
    value=_value,
    bounds=_bounds,
    window=("min", "max"),
    pane=("min", "max"),
    grows=(">", ">="),
)
