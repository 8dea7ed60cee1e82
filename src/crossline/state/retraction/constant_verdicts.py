"""Whether records out of order can change any verdict of a key: judged once for all of a batch, not once for each.

An example. A rule alerts where a card has 1,000 payments in 10 s or more. 50 late payments come in one batch. A variant
for each would be judged, 50 times the later payments. But each window only gains records: its count in any variant is
at least that which the payment had when it came, and at most that with all 50. Where both are beyond the threshold, so
is what is between, and no variant has a hit that the one before lacks:

    payments of 10 s        p1       p2       p3       p4
    as they came          1,204    1,207    1,209    1,210
    with all late ones    1,231    1,240    1,246    1,250      threshold 1,000: satisfied in every variant

So two judgings answer for all variants: the rows as they came, and all of them in order. Where the answer is no, or
unknown, the variants are judged one by one (``replays``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from crossline.basics.values import F64, I64, U8
from crossline.plan.spaces import AggregateSpec, ComparisonPlan, FeatureQueryPlan, KeySpacePlan
from crossline.state.batch import Bools, Delta, KeyedBatch, RowFeatures
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

    def hold(self, table: Table, make: Callable[[Any], Any], arrivals: Arrivals) -> bool:
        """Whether no variant has a hit at a row of ``final``; False too where that is not certain."""
        came = np.append(arrivals.held, arrivals.added)
        first, last = self._figures(table, make, arrivals, came)
        batch = table.batch(came)
        sat = table.bits("sat")[arrivals.before]
        for number, (line, at_first, at_last) in enumerate(zip(self._plan.lines, first, last, strict=True)):
            judged = at_first.rows
            if not len(judged):
                continue
            verdict = self._verdict(line, batch, at_first, at_last, len(arrivals.held))
            if verdict is None:
                return False
            if verdict:
                earlier = np.flatnonzero(self._judges(table, line, arrivals.before))
                if line.emit_every or not len(earlier) or not _bit_of(sat[earlier[-1:]], number)[0]:
                    return False
                clock_ms = table.number("clock_ms")
                earlier_ms = int(clock_ms[arrivals.before[earlier[-1]]])
                if not self._stays(line, earlier_ms, clock_ms[came[judged]]):
                    return False
        return True

    def _figures(
        self, table: Table, make: Callable[[Any], Any], arrivals: Arrivals, came: I64
    ) -> tuple[list[RowFeatures], list[RowFeatures]]:
        """Of each line its figures at the rows as they ``came``, and at the same rows once all are there."""
        store, names = make(self._probe), np.arange(2, dtype="<i8")
        store.duplicate_ms, store.in_order = -ANY_AGE, False
        keys, before = (names.view(np.uint8), np.arange(3, dtype=np.int64) * 8), arrivals.before
        if len(before):
            batch = table.batch(np.append(before, before), keys, np.repeat(np.arange(2), len(before)))
            none = np.zeros(0, np.int32)
            store.load(Delta(batch, np.zeros((len(batch), 0), np.uint8), none, none), ())
        batch = table.batch(np.append(came, arrivals.final), keys, np.repeat(np.arange(2), len(came)))
        features = store.judge(batch).features
        place = np.empty(len(table), np.int64)
        place[came] = np.arange(len(came))
        back = place[arrivals.final]
        return [_part(each, 0, len(came)) for each in features], [_placed(each, len(came), back) for each in features]

    def _judges(self, table: Table, line: ComparisonPlan, rows: I64) -> Bools:
        """Which ``rows`` of the table the line judges."""
        entered = _bit_of(table.filters[rows], line.filter_in(self._plan))
        ingest_ms, lateness_ms = table.number("ingest_ms")[rows], table.number("lateness_ms")[rows]
        judged: Bools = entered & in_force(line.spans, line.judge_lateness_ms, ingest_ms, lateness_ms)
        return judged

    def _verdict(
        self, line: ComparisonPlan, batch: KeyedBatch, first: RowFeatures, last: RowFeatures, held: int
    ) -> bool | None:
        """Whether the line is satisfied at each of its rows in each variant: True or False; None: it is not known."""
        was, is_now = first.figures[_FIGURE], last.figures[_FIGURE]
        if was.up is not None or is_now.up is not None or (was.defined != is_now.defined).any():
            return None
        defined = was.defined
        low, high = self._bounds(line, batch, first, last, held)
        if not (np.isfinite(low[defined]).all() and np.isfinite(high[defined]).all()):
            return None
        if (np.maximum(abs(low), abs(high))[defined] >= EXACT).any():
            return None
        least, most = _extremes(line, low, high)
        if not most[defined].any():
            return False
        return True if defined.all() and least.all() else None

    def _bounds(
        self, line: ComparisonPlan, batch: KeyedBatch, first: RowFeatures, last: RowFeatures, held: int
    ) -> tuple[F64, F64]:
        """The least and the greatest that the figure of each row may be in any variant."""
        plan = self._plan
        aggregate = plan.aggregates[line.aggregate]
        was, is_now = (each.figures[_FIGURE].values.astype(np.float64) for each in (first, last))
        if aggregate.aggregate not in ("sum", "avg"):
            return np.minimum(was, is_now), np.maximum(was, is_now)
        before, more = first.figures[_FIGURE].counts, last.figures[_FIGURE].counts - first.figures[_FIGURE].counts
        entered = _bit_of(batch.filters, plan.windows[aggregate.window].filter)
        entered[:held] = False
        values = batch.values[aggregate.column][entered].astype(np.float64)
        if not len(values):
            return np.minimum(was, is_now), np.maximum(was, is_now)
        least, most = float(values.min()), float(values.max())
        if aggregate.aggregate == "sum":
            if least >= 0 or most <= 0:
                return np.minimum(was, is_now), np.maximum(was, is_now)
            low, high = was + more * min(0.0, least), was + more * max(0.0, most)
        else:
            held_in, all_in = was * before, np.maximum(before + more, 1)
            low = np.minimum(was, (held_in + more * least) / all_in)
            high = np.maximum(was, (held_in + more * most) / all_in)
        slack = _SLACK * (np.abs(was) + (more + 1) * max(abs(least), abs(most)))
        return low - slack, high + slack

    def _stays(self, line: ComparisonPlan, earlier_ms: int, clock_ms: I64) -> bool:
        """Whether in every variant each row of the line has another one before it that is still in its window."""
        clocks = np.append(earlier_ms, clock_ms)
        # What came in order is in every variant from then on; all else comes between such rows.
        ahead = clocks[clocks >= np.maximum.accumulate(clocks)]
        return bool((np.diff(ahead) < line.rearm_in(self._plan)[0]).all())


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


def _part(features: RowFeatures, start: int, end: int) -> RowFeatures:
    """Those of the rows from ``start`` to ``end``, numbered from there."""
    mine = (features.rows >= start) & (features.rows < end)
    return _taken(features, np.flatnonzero(mine), features.rows[mine] - start)


def _placed(features: RowFeatures, start: int, place: I64) -> RowFeatures:
    """Those of the rows from ``start`` on, of which each has this ``place``, in the order of the places."""
    mine = np.flatnonzero(features.rows >= start)
    places = place[features.rows[mine] - start]
    order = np.argsort(places)
    return _taken(features, mine[order], places[order])


def _taken(features: RowFeatures, at: I64, rows: I64) -> RowFeatures:
    figure = features.figures[_FIGURE]
    up = None if figure.up is None else figure.up[at]
    taken = replace(figure, values=figure.values[at], up=up, defined=figure.defined[at], counts=figure.counts[at])
    return RowFeatures(rows, {_FIGURE: taken})
