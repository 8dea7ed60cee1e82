"""Whether records out of order can change any verdict of a key: judged once for all of a batch, not once for each.

An example. A rule alerts where a card has 1,000 payments in 10 s or more. 50 late payments come in one batch. A variant
for each would be judged, 50 times the later payments. But each window only gains records: its count in any variant is
at least that which the payment had when it came, and at most 50 more. Where both are beyond the threshold, so
is what is between, and no variant has a hit that the one before lacks:

    payments of 10 s        p1       p2       p3       p4
    as they came          1,204    1,207    1,209    1,210
    and the late ones     1,254    1,257    1,259    1,260      threshold 1,000: satisfied in every variant

So one judging answers for all variants: that of the rows as they came. Where the answer is no, or unknown, the variants
are judged one by one (``replays``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from crossline.basics.values import F64, I64, U8
from crossline.plan.spaces import AggregateSpec, ComparisonPlan, FeatureQueryPlan, KeySpacePlan
from crossline.state.batch import Bools, Delta, Hits, KeyedBatch, RowFeatures, no_hits
from crossline.state.retraction.replays import Arrivals
from crossline.state.retraction.table import Table
from crossline.state.windows.emission.columns import in_force
from crossline.state.windows.record_store import ANY_AGE

GROWING = frozenset({"count", "distinct_count", "max", "min", "sum", "avg"})
EXACT = 2.0**53  # up to here floats have every integer
_SLACK = 1e-9  # of what is computed here in floats, and by the kernel exactly
_FIGURE = "figure"


class ConstantVerdicts:
    """The comparisons of ``plan``, and how far records that are added may move what each compares."""

    def __init__(self, plan: KeySpacePlan) -> None:
        counts = {number: AggregateSpec(number, -1, "count") for number in range(len(plan.windows))}
        aggregates = list(dict.fromkeys([*plan.aggregates, *counts.values()]))
        self._plan = plan
        numbers = [
            (aggregates.index(plan.aggregates[line.aggregate]), aggregates.index(counts[_window(plan, line)]))
            for line in plan.lines
        ]
        probes = tuple(
            FeatureQueryPlan(
                rule_id=line.rule_id,
                version=line.version,
                filter=line.filter_in(plan),
                figures=((_FIGURE, *of_line),),
                facts=(),
                spans=line.spans,
                judge_lateness_ms=line.judge_lateness_ms,
            )
            for of_line, line in zip(numbers, plan.lines, strict=True)
        )
        self._probe = replace(plan, aggregates=tuple(aggregates), lines=(), feature_queries=probes)

    @staticmethod
    def of(plan: Any) -> ConstantVerdicts | None:
        """Those of ``plan``; None where it has verdicts that this cannot speak of."""
        if not isinstance(plan, KeySpacePlan) or plan.formulas or plan.feature_queries or not plan.lines:
            return None
        known = all(plan.aggregates[line.aggregate].aggregate in GROWING for line in plan.lines)
        exact = all(abs(line.threshold) < EXACT for line in plan.lines)
        return ConstantVerdicts(plan) if known and exact else None

    def hits(self, table: Table, make: Callable[[Any], Any], arrivals: Arrivals) -> Hits | None:
        """What the last variant is: no hits at its rows, and the lines that each satisfies.

        None where a variant may have a hit, as far as this can tell.
        """
        came, clock_ms = np.append(arrivals.held, arrivals.added), table.number("clock_ms")
        batch, features = self._as_they_came(table, make, arrivals.before, came)
        more = arrivals.later(came)
        satisfied = np.zeros((len(came), 8 * table.bits("sat").shape[1]), np.uint8)
        for number, (line, figures) in enumerate(zip(self._plan.lines, features, strict=True)):
            judged = figures.rows
            if not len(judged):
                continue
            bounds = self._bounds(line, batch, figures, more[judged], len(arrivals.held))
            verdict = None if bounds is None else _verdict(line, figures.figures[_FIGURE].defined, *bounds)
            if verdict is None:
                return None
            if verdict:
                if line.emit_every or not self._stays(table, number, arrivals.before, clock_ms[came[judged]]):
                    return None
                satisfied[judged, number] = 1
        place = np.empty(len(table), np.int64)
        place[came] = np.arange(len(came))
        sat = np.packbits(satisfied[place[arrivals.final]], axis=1, bitorder="little")
        return replace(no_hits(np.zeros(len(came), np.bool_)), sat=sat, retained=np.arange(len(came), dtype=np.int32))

    def _as_they_came(
        self, table: Table, make: Callable[[Any], Any], before: I64, came: I64
    ) -> tuple[KeyedBatch, tuple[RowFeatures, ...]]:
        """The rows that ``came``, in this order, and of each line the figures of those that it judges."""
        store, key = make(self._probe), (np.zeros(1, np.uint8), np.arange(2, dtype=np.int64))
        store.duplicate_ms, store.in_order = -ANY_AGE, False
        if len(before):
            batch, none = table.batch(before, key, np.zeros(len(before), np.int32)), np.zeros(0, np.int32)
            store.load(Delta(batch, np.zeros((len(batch), 0), np.uint8), none, none), ())
        batch = table.batch(came, key, np.zeros(len(came), np.int32))
        return batch, store.judge(batch).features

    def _bounds(
        self, line: ComparisonPlan, batch: KeyedBatch, features: RowFeatures, more: I64, held: int
    ) -> tuple[F64, F64] | None:
        """The least and the greatest that the figure of each row may be in any variant; None where that is not known.

        ``more``: how many records its window may get besides. The first ``held`` rows of ``batch`` were there before.
        """
        plan, figure = self._plan, features.figures[_FIGURE]
        aggregate = plan.aggregates[line.aggregate]
        was = figure.values.astype(np.float64)
        if figure.up is not None or not (np.abs(was) < EXACT).all():
            return None
        if aggregate.aggregate in ("count", "distinct_count"):
            return was, was + more
        if not figure.defined.all():
            return None
        entered = _bit_of(batch.filters, plan.windows[aggregate.window].filter)
        entered[:held] = False
        values = batch.values[aggregate.column][entered].astype(np.float64)
        least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if not max(abs(least), abs(most)) * (int(more.max()) + 1) < EXACT:
            return None
        low, high = _BOUNDS[aggregate.aggregate](was, figure.counts, np.where(len(values), more, 0), least, most)
        slack = _SLACK * (np.abs(was) + (more + 1) * max(abs(least), abs(most)))
        return low - slack, high + slack

    def _stays(self, table: Table, number: int, before: I64, clock_ms: I64) -> bool:
        """Whether in every variant each row of line ``number`` follows one that satisfies it and is in its window.

        All rows of the variants satisfy it, at ``clock_ms`` in the order in which they came.
        """
        line = self._plan.lines[number]
        ingest_ms, lateness_ms = table.number("ingest_ms")[before], table.number("lateness_ms")[before]
        judged = _bit_of(table.filters[before], line.filter_in(self._plan))
        judged &= in_force(line.spans, line.judge_lateness_ms, ingest_ms, lateness_ms)
        earlier = before[np.flatnonzero(judged)[-1:]]
        if not len(earlier) or not _bit_of(table.bits("sat")[earlier], number)[0]:
            return False
        clocks = np.append(table.number("clock_ms")[earlier], clock_ms)
        # What came in order is in every variant from then on; all else comes between such rows.
        ahead = clocks[clocks >= np.maximum.accumulate(clocks)]
        return bool((np.diff(ahead) < line.rearm_in(self._plan)[0]).all())


def _greatest(was: F64, counts: I64, more: I64, least: float, most: float) -> tuple[F64, F64]:  # noqa: ARG001
    return was, np.where(more > 0, np.maximum(was, most), was)


def _least(was: F64, counts: I64, more: I64, least: float, most: float) -> tuple[F64, F64]:  # noqa: ARG001
    return np.where(more > 0, np.minimum(was, least), was), was


def _total(was: F64, counts: I64, more: I64, least: float, most: float) -> tuple[F64, F64]:  # noqa: ARG001
    return was + more * min(0.0, least), was + more * max(0.0, most)


def _mean(was: F64, counts: I64, more: I64, least: float, most: float) -> tuple[F64, F64]:
    """The further the mean is from the values that come, the more of them move it the more."""
    held, after = was * counts, np.maximum(counts + more, 1)
    low, high = (held + more * least) / after, (held + more * most) / after
    return np.minimum(was, low), np.maximum(was, high)


# By aggregate: (value, records in the window, how many more there may be, least and greatest value of these) -> bounds.
_BOUNDS = {"max": _greatest, "min": _least, "sum": _total, "avg": _mean}


def _verdict(line: ComparisonPlan, defined: Bools, low: F64, high: F64) -> bool | None:
    """Whether the line is satisfied at each of its rows in each variant: True or False; None: it is not known."""
    least, most = _extremes(line, low, high)
    if not most.any():
        return False
    return True if least.all() and defined.all() else None


def _bit_of(filters: U8, number: int) -> Bools:
    """Which rows of ``filters`` are an entry of ``number``."""
    found: Bools = ((filters[:, number >> 3] >> (number & 7)) & 1).astype(np.bool_)
    return found


def _window(plan: KeySpacePlan, line: ComparisonPlan) -> int:
    return plan.aggregates[line.aggregate].window


def _extremes(line: ComparisonPlan, low: F64, high: F64) -> tuple[Bools, Bools]:
    """Of each row whether the line is satisfied wherever in ``low`` to ``high`` its figure is, and anywhere there."""
    bound = float(line.threshold)
    sure: Bools
    maybe: Bools
    match line.operator:
        case ">=":
            sure, maybe = low >= bound, high >= bound
        case ">":
            sure, maybe = low > bound, high > bound
        case "<=":
            sure, maybe = high <= bound, low <= bound
        case "<":
            sure, maybe = high < bound, low < bound
        case _:
            only, within = (low == bound) & (high == bound), (low <= bound) & (bound <= high)
            sure, maybe = (only, within) if line.operator == "==" else (~within, ~only)
    return sure, maybe
