"""Counts, sums and different values of windows of one key, of each row as it came, without a store of its rows.

The rows are in order of clocks, so that a window is a stretch of them, and its total moves along with its ends. Taken
off again are rows that lie in it and came later than the row whose window it is: only those that came out of order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crossline.basics.values import F64, I64
from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import FeatureColumn, RowFeatures
from crossline.state.retraction import arrival_kernel
from crossline.state.retraction.moving_lines import KeyRows, entering, may_run, values_of
from crossline.state.retraction.window_totals_kernel import COUNT_OF, DIFFERENT_OF, FOUND_FIELDS, SUM_OF, compiled

FIGURE, SUM = "figure", "sum"
_ADDED = frozenset({"count", "sum", "avg", "distinct_count"})
_MOST = 2**62


def warm() -> None:
    """Compile what keys of many late records are judged by, or load it."""
    compiled()
    arrival_kernel.compiled()
    arrival_kernel.compiled_evidence()


def are_totals(plan: KeySpacePlan) -> bool:
    """Whether all lines of ``plan`` compare what ``totals_as_they_came`` tells."""
    added = (may_run(plan, line) and plan.aggregates[line.aggregate].aggregate in _ADDED for line in plan.lines)
    return not plan.formulas and all(added)


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
        found, work = np.zeros((FOUND_FIELDS, len(order)), np.int64), np.zeros(5 + len(order), np.int64)
        codes = np.zeros(int(values.max()) + 1 if aggregate.aggregate == "distinct_count" else 0, np.int64)
        reach = (window.window_ms - (not window.left_closed), window.right_open, window.include_current)
        compiled()(before, rows, order, np.array(reach, np.int64), work, codes, found)
        judged = np.flatnonzero(key.judged_by(line, plan, key.came))
        features.append(RowFeatures(judged, _columns(aggregate.aggregate, found[:, judged])))
    return features


def _columns(kind: str, found: I64) -> dict[str, FeatureColumn]:
    counts, sums = found[COUNT_OF], found[SUM_OF]
    there, some = np.ones(len(counts), np.bool_), counts > 0
    if kind == "avg":
        mean: F64 = sums / np.maximum(counts, 1)
        return {FIGURE: FeatureColumn(mean, None, some, counts), SUM: FeatureColumn(sums, None, there, counts)}
    values = found[{"count": COUNT_OF, "sum": SUM_OF, "distinct_count": DIFFERENT_OF}[kind]]
    return {FIGURE: FeatureColumn(values, None, there, counts)}
