"""Of each aggregate the range of figures at which none of its thresholds is satisfied.

Most figures are in it. Where, besides, no threshold of the key was satisfied before, there is nothing to compare.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from crossline.basics.values import F64, I64

_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1
Bound = tuple[int, int, float, float]  # see ``program.bounds_of``


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
        low, high = _widest_gap(integers, _I64_MIN - 1, _I64_MAX + 1)
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
