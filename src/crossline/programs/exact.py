"""What several aggregates are defined by: sums as real numbers, rounded once; and what is known of their bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from crossline.programs.aggregate import Bounds, BoundsRequest, Scanned

_SLACK = 1e-12  # of a value that is rounded more than once
MILLIONTHS = 1_000_000
RANKED_ERROR = 1 / 129  # the most that a value at a rank is off in panes, as a part of it


def rounded(exact: Fraction) -> float:
    """The nearest float; infinite beyond the greatest."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def total(values: Sequence[float]) -> float:
    """The real sum of floats, rounded once."""
    return rounded(sum(map(Fraction, values), Fraction(0)))


def average(values: Sequence[float], *, real: bool) -> float:
    """Of floats the rounded sum over the count, as long as it is finite: the exact average may be the next float."""
    if real and math.isfinite(total(values)):
        return total(values) / len(values)
    return rounded(sum(map(Fraction, values), Fraction(0)) / len(values))


def loose(low: float, high: float) -> tuple[float, float]:
    """With room for what rounding does; zero stays zero, since no rounding passes it."""
    return low - _SLACK * abs(low), high + _SLACK * abs(high)


def bounds_of_one(request: BoundsRequest) -> Bounds:
    """Of what is one of the field's values."""
    if request.kind is None:
        return Bounds()
    return Bounds(request.kind, not request.own, request.low, request.high)


def ranked(window: Scanned) -> Any:
    """The nearest-rank quantile: the least value such that the share ``rank`` of all values is at most it."""
    place = math.ceil(Fraction(round(window.rank * MILLIONTHS), MILLIONTHS) * len(window.values))
    return sorted(window.values)[place - 1]
