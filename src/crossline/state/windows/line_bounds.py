"""The figures that satisfy a threshold, as ranges; and of each aggregate a range at which no threshold is satisfied.

Most figures are in that. Where, besides, no threshold of the key was satisfied before, there is nothing to compare.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from crossline.basics.values import F64, I64
from crossline.programs.kinds import Operator

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
WIDEST = 2**120  # beyond any sum of as many int64 as there can be records
Bound = tuple[int, int, float, float]  # see ``bounds_of``


def bounds_of(operator: Operator, threshold: float) -> tuple[int, int, float, float]:
    """The values that satisfy, as closed ranges of integers and of float64. For ``!=`` the range of those that do not.

    Integers are compared exactly: ``> 100.5`` is ``>= 101``, and ``== 100.5`` is empty.
    """
    low_i, high_i, low_f, high_f = -WIDEST, WIDEST, -math.inf, math.inf
    up_i, down_i = math.ceil(threshold), math.floor(threshold)
    up_f, down_f = _float_at_least(threshold), -_float_at_least(-threshold)
    match operator:
        case ">=":
            low_i, low_f = up_i, up_f
        case ">":
            low_i, low_f = down_i + 1, math.nextafter(down_f, math.inf)
        case "<=":
            high_i, high_f = down_i, down_f
        case "<":
            high_i, high_f = up_i - 1, math.nextafter(up_f, -math.inf)
        case "==" | "!=":
            low_i, high_i, low_f, high_f = up_i, down_i, up_f, down_f
    return low_i, high_i, low_f, high_f


def wide_bounds(bounds: list[tuple[int, int, float, float]]) -> dict[str, I64]:
    """The bounds on integers: cut to 64 bits (1 to 0 where nothing is left), and whole."""
    empty = [low > I64_MAX or high < I64_MIN for low, high, _, _ in bounds]
    lows = [max(-WIDEST, min(WIDEST, low)) for low, *_ in bounds]
    highs = [max(-WIDEST, min(WIDEST, high)) for _, high, *_ in bounds]
    return {
        "low_i": _longs(1 if none else max(low, I64_MIN) for none, low in zip(empty, lows, strict=True)),
        "high_i": _longs(0 if none else min(high, I64_MAX) for none, high in zip(empty, highs, strict=True)),
        "low_rest": _longs(_rest(low) for low in lows),
        "low_up": _longs((low - _rest(low)) >> 64 for low in lows),
        "high_rest": _longs(_rest(high) for high in highs),
        "high_up": _longs((high - _rest(high)) >> 64 for high in highs),
    }


def _rest(value: int) -> int:
    """What an int64 keeps of an integer."""
    return (value + 2**63) % 2**64 - 2**63


def _float_at_least(threshold: float) -> float:
    """The least float64 that is not below ``threshold``, which may be an integer that no float is."""
    try:
        near = float(threshold)
    except OverflowError:
        return math.inf if threshold > 0 else -sys.float_info.max
    return near if near >= threshold else math.nextafter(near, math.inf)


def quiet_ranges(bounds: Sequence[Bound], negated: Sequence[bool], starts: Iterable[int]) -> dict[str, I64 | F64]:
    """The arrays QUIET_…: integers from and to, floats above and below; ``starts``: where each aggregate's lines begin.

    An aggregate without lines is quiet at all figures, one whose lines leave no range at none.
    """
    whole, real = list[tuple[int, int]](), list[tuple[float, float]]()
    begins = list(starts)
    for start, end in itertools.pairwise(begins):
        mine = [(*bound, other) for bound, other in zip(bounds[start:end], negated[start:end], strict=True)]
        integers = [each for low, high, _, _, other in mine for each in _satisfying(low, high, 1, negated=other)]
        floats = [each for _, _, low, high, other in mine for each in _satisfying(low, high, 0.0, negated=other)]
        low, high = _widest_gap(integers, I64_MIN - 1, I64_MAX + 1)
        whole.append((low + 1, high - 1) if low + 1 <= high - 1 else (1, 0))
        real.append(_widest_gap(floats, -math.inf, math.inf))
    return {
        "quiet_low_i": np.array([low for low, _ in whole], np.int64),
        "quiet_high_i": np.array([high for _, high in whole], np.int64),
        "quiet_low_f": np.array([low for low, _ in real], np.float64),
        "quiet_high_f": np.array([high for _, high in real], np.float64),
    }


def _satisfying(low: Any, high: Any, step: Any, *, negated: bool) -> list[tuple[Any, Any]]:
    """What satisfies a line, as closed ranges; of floats one value more at each end does no harm."""
    if not negated:
        return [(low, high)] if low <= high else []
    return [(-math.inf, low - step), (high + step, math.inf)] if low <= high else [(-math.inf, math.inf)]


def _widest_gap(ranges: list[tuple[Any, Any]], low: Any, high: Any) -> tuple[Any, Any]:
    """The ends, which are not in it, of the widest gap between the ``ranges`` from ``low`` to ``high``."""
    found, reached = (high, low), low
    for begin, end in [*sorted(ranges), (high, high)]:
        start = min(begin, high)
        if start > reached and (found[0] > found[1] or _width(reached, start) > _width(*found)):
            found = (reached, start)
        reached = max(reached, end)
    return found


def _width(low: float, high: float) -> float:
    most = sys.float_info.max / 2
    return min(float(high), most) - max(float(low), -most)


def _longs(values: Iterable[int]) -> I64:
    return np.array(list(values), dtype=np.int64)
