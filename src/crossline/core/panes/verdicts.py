"""Which lines hold at which rows, of figures that were told, all rows at once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from crossline.core.plan.spaces import Line
from crossline.core.windows.verdicts.formulas import Told

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_LEAST, _MOST = -(2**63), 2**63 - 1


def holds(line: Line, told: Told, column: int, *, integral: bool) -> Any:
    """Whether ``line`` is satisfied at each row, by the figures of ``column``; nothing is where there is none."""
    defined = told.defined[:, column].view(np.bool_)
    if not integral:
        return defined & _COMPARED[line.operator](told.real[:, column], _float(line))
    found = defined & _whole(line, told.whole[:, column])
    for row in np.flatnonzero(told.up[:, column]).tolist():
        value = exact(told, row, column)
        found[row] = bool(defined[row]) and _COMPARED[line.operator](value, line.threshold)
    return found


def exact(told: Told, row: int, column: int) -> int:
    """An integer of any size."""
    return int(told.whole[row, column]) + (int(told.up[row, column]) << 64)


def _float(line: Line) -> float:
    """The threshold, where it is beyond all floats the nearest infinity: no finite figure is on its other side."""
    try:
        return float(line.threshold)
    except OverflowError:
        return math.inf if line.threshold > 0 else -math.inf


def _whole(line: Line, values: Any) -> Any:
    """Integers of 64 bits against a threshold that may be none, compared exactly: ``> 100.5`` is ``>= 101``."""
    up, down = math.ceil(line.threshold), math.floor(line.threshold)
    if line.operator in {"==", "!="}:
        same = values == up if up == down and _LEAST <= up <= _MOST else np.zeros(len(values), np.bool_)
        return same if line.operator == "==" else ~same
    bound = up if line.operator in {">=", "<"} else down
    if bound > _MOST or bound < _LEAST:
        return np.full(len(values), (bound < 0) == (line.operator in {">", ">="}))
    return _COMPARED[line.operator](values, bound)
