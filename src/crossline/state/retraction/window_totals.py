"""Counts and sums of windows of one key, of each row as it came, without a store that its rows are loaded into.

The rows are in order of clocks, so that a window is a stretch of them, and its total moves along with its ends. Taken
off again are rows that lie in it and came later than the row whose window it is: only those that came out of order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from crossline.basics.kernels.kernel import Kernel
from crossline.basics.values import F64, I64
from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import FeatureColumn, RowFeatures
from crossline.state.memory.source_digest import digest
from crossline.state.retraction import arrival_kernel
from crossline.state.retraction.moving_lines import KeyRows, entering, may_run, values_of

FIGURE, SUM = "figure", "sum"
_ADDED = frozenset({"count", "sum", "avg"})
_MOST = 2**62

# Of a window. BEGINS, ENDS: the ms from the first and the last clock in it to its record; ITSELF: whether it has that.
WINDOW_FIELDS = 3
BEGINS, ENDS, ITSELF = range(WINDOW_FIELDS)

# Of a row. LATE: whether a row that came before it lies behind it.
FOUND_FIELDS = 3
COUNT_OF, SUM_OF, LATE = range(FOUND_FIELDS)


def _totals(before: Any, rows: Any, came: Any, window: Any, late: Any, found: Any) -> int:
    """The count and the sum of the window of each of ``rows``, as it came; ``found``: by how many came before it.

    ``before``, ``rows``: clock, whether it is in windows, value; both in order, ``before`` ahead of ``rows``. ``late``:
    room for as many places as there are rows. Returns how many came out of order.
    """
    earliest = len(came)
    for i in range(len(came) - 1, -1, -1):
        found[LATE, i] = 1 if came[i] > earliest else 0
        earliest = min(earliest, came[i])
    count, total, low, high, low_before, high_before, lates, first_late = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(len(came)):
        begin_ms, end_ms = rows[0, i] - window[BEGINS], rows[0, i] - window[ENDS]
        while high_before < before.shape[1] and before[0, high_before] <= end_ms:
            count += before[1, high_before]
            total += before[1, high_before] * before[2, high_before]
            high_before += 1
        while low_before < high_before and before[0, low_before] < begin_ms:
            count -= before[1, low_before]
            total -= before[1, low_before] * before[2, low_before]
            low_before += 1
        while high < i and rows[0, high] <= end_ms:
            count += rows[1, high]
            total += rows[1, high] * rows[2, high]
            high += 1
        while low < high and rows[0, low] < begin_ms:
            count -= rows[1, low]
            total -= rows[1, low] * rows[2, low]
            low += 1
        own_count, own_total = count, total
        while first_late < lates and late[first_late] < low:
            first_late += 1
        for each in range(first_late, lates):
            place = late[each]
            if place >= high:
                break
            if came[place] > came[i]:
                own_count -= rows[1, place]
                own_total -= rows[1, place] * rows[2, place]
        if window[ITSELF] != 0:
            own_count += rows[1, i]
            own_total += rows[1, i] * rows[2, i]
        found[COUNT_OF, came[i]], found[SUM_OF, came[i]] = own_count, own_total
        if found[LATE, i] != 0:
            late[lates] = i
            lates += 1
    return lates


@cache
def compiled() -> Any:
    """``_totals``, compiled, or loaded from what an earlier process compiled."""
    kernel = Kernel(_totals, lambda: digest("crossline.state.retraction"), {"error_model": "numpy", "_nrt": False})
    return kernel.of("<i8 2 C", "<i8 2 C", "<i8 1 C", "<i8 1 C", "<i8 1 C", "<i8 2 C")


def warm() -> None:
    """Compile what keys of many late records are judged by, or load it."""
    compiled()
    arrival_kernel.compiled()
    arrival_kernel.compiled_evidence()


def are_totals(plan: KeySpacePlan) -> bool:
    """Whether all lines of ``plan`` compare what ``totals_as_they_came`` tells."""
    return all(may_run(plan, line) and plan.aggregates[line.aggregate].aggregate in _ADDED for line in plan.judging)


def totals_as_they_came(key: KeyRows, plan: KeySpacePlan) -> Sequence[RowFeatures] | None:
    """Of each line of ``plan`` the figures at the rows that it judges, as they came; of an average also the sum.

    None where 64 bits do not hold them.
    """
    features, order = list[RowFeatures](), np.ascontiguousarray(key.arrivals.order)
    for line in plan.lines:
        aggregate = plan.aggregates[line.aggregate]
        window, values = plan.windows[aggregate.window], values_of(key, aggregate)
        size = max(abs(int(values.min())), abs(int(values.max())))
        if size * len(values) >= _MOST:
            return None
        held, entered = len(key.before), entering(key.came, window.filter)
        before = np.array([key.before.clock_ms, entering(key.before, window.filter), values[:held]], np.int64)
        rows = np.array([each[order] for each in (key.came.clock_ms, entered, values[held:])], np.int64)
        found, late = np.empty((FOUND_FIELDS, len(order)), np.int64), np.empty(len(order), np.int64)
        reach = (window.window_ms - (not window.left_closed), window.right_open, window.include_current)
        compiled()(before, rows, order, np.array(reach, np.int64), late, found)
        judged = np.flatnonzero(key.judged_by(line, plan, key.came))
        features.append(
            RowFeatures(judged, _columns(aggregate.aggregate, found[COUNT_OF, judged], found[SUM_OF, judged]))
        )
    return features


def _columns(kind: str, counts: I64, sums: I64) -> dict[str, FeatureColumn]:
    there, some = np.ones(len(counts), np.bool_), counts > 0
    if kind == "count":
        return {FIGURE: FeatureColumn(counts, None, there, counts)}
    if kind == "sum":
        return {FIGURE: FeatureColumn(sums, None, there, counts)}
    mean: F64 = sums / np.maximum(counts, 1)
    return {FIGURE: FeatureColumn(mean, None, some, counts), SUM: FeatureColumn(sums, None, there, counts)}
