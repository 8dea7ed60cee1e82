"""The kernel of ``window_totals``: a window moves along rows in order of clocks, and what came later is taken off."""

from __future__ import annotations

from functools import cache
from typing import Any

from crossline.basics.kernels.kernel import Kernel
from crossline.state.memory.access import jit
from crossline.state.memory.source_digest import digest

# Of a window. BEGINS, ENDS: the ms from the first and the last clock in it to its record; ITSELF: whether it has that.
WINDOW_FIELDS = 3
BEGINS, ENDS, ITSELF = range(WINDOW_FIELDS)

# Of a row. LATE: whether a row that came before it lies behind it.
FOUND_FIELDS = 4
COUNT_OF, SUM_OF, DIFFERENT_OF, LATE = range(FOUND_FIELDS)


@jit
def _add(rows: Any, i: int, sign: int, total: Any, codes: Any) -> None:
    """Row ``i`` comes into a window (``sign`` 1) or leaves it (-1); ``codes``: how many of each value are in it."""
    if rows[1, i] == 0:
        return
    value = rows[2, i]
    total[COUNT_OF] += sign
    total[SUM_OF] += sign * value
    if len(codes) > 0:
        was = codes[value]
        codes[value] = was + sign
        total[DIFFERENT_OF] += 1 if was == 0 else -1 if was + sign == 0 else 0


@jit
def _add_later(
    rows: Any, came: Any, late: Any, lates: Any, high: int, i: int, sign: int, total: Any, codes: Any
) -> None:
    """As ``_add`` of the rows before place ``high`` that came later than row ``i``, of those ``late``."""
    for each in range(lates[0], lates[1]):
        place = late[each]
        if place >= high:
            return
        if came[place] > came[i]:
            _add(rows, place, sign, total, codes)


def _totals(before: Any, rows: Any, came: Any, window: Any, work: Any, codes: Any, found: Any) -> int:
    """The count, the sum and the different values of the window of each of ``rows``, as it came.

    ``found``: by how many came before it. ``before``, ``rows``: clock, whether it is in windows, value; both in order,
    ``before`` ahead of ``rows``. ``work``: zeros, five, and as many as there are rows. ``codes``: zeros, one for each
    value; none where only counts and sums are wanted. Returns how many came out of order.
    """
    total, lates, late = work[:3], work[3:5], work[5:]
    earliest = len(came)
    for i in range(len(came) - 1, -1, -1):
        found[LATE, i] = 1 if came[i] > earliest else 0
        earliest = min(earliest, came[i])
    low, high, low_before, high_before = 0, 0, 0, 0
    for i in range(len(came)):
        begin_ms, end_ms = rows[0, i] - window[BEGINS], rows[0, i] - window[ENDS]
        while high_before < before.shape[1] and before[0, high_before] <= end_ms:
            _add(before, high_before, 1, total, codes)
            high_before += 1
        while low_before < high_before and before[0, low_before] < begin_ms:
            _add(before, low_before, -1, total, codes)
            low_before += 1
        while high < i and rows[0, high] <= end_ms:
            _add(rows, high, 1, total, codes)
            high += 1
        while low < high and rows[0, low] < begin_ms:
            _add(rows, low, -1, total, codes)
            low += 1
        while lates[0] < lates[1] and late[lates[0]] < low:
            lates[0] += 1
        _add_later(rows, came, late, lates, high, i, -1, total, codes)
        if window[ITSELF] != 0:
            _add(rows, i, 1, total, codes)
        for kind in range(3):
            found[kind, came[i]] = total[kind]
        if window[ITSELF] != 0:
            _add(rows, i, -1, total, codes)
        _add_later(rows, came, late, lates, high, i, 1, total, codes)
        if found[LATE, i] != 0:
            late[lates[1]] = i
            lates[1] += 1
    return int(lates[1])


@cache
def compiled() -> Any:
    """``_totals``, compiled, or loaded from what an earlier process compiled."""
    kernel = Kernel(_totals, lambda: digest("crossline.state.retraction"), {"error_model": "numpy", "_nrt": False})
    return kernel.of("<i8 2 C", "<i8 2 C", "<i8 1 C", "<i8 1 C", "<i8 1 C", "<i8 1 C", "<i8 2 C")
