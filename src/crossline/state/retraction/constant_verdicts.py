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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import I64
from crossline.plan.spaces import AggregateSpec, FeatureQueryPlan, KeySpacePlan
from crossline.state.batch import Delta, Hits, KeyedBatch, RowFeatures, no_hits
from crossline.state.retraction.figure_bounds import EXACT, GROWING, Bounds, figure_bounds
from crossline.state.retraction.formula_bounds import Truth, truth_of, truth_of_comparison
from crossline.state.retraction.moving_lines import KeyRows, LineRun, bit_of, may_run, run_line, summed
from crossline.state.retraction.replays import Arrivals
from crossline.state.retraction.table import Table
from crossline.state.retraction.window_totals import FIGURE, SUM, are_totals, totals_as_they_came
from crossline.state.windows.record_store import ANY_AGE

Figures = tuple[tuple[str, int, int], ...]  # name, aggregate, count of its window


@dataclass(frozen=True, slots=True)
class KeyVerdicts:
    """What is known of a key without its variants.

    ``hits``: of the lines that no record changes: none at the rows that came, in order, and the lines that each
    satisfies. ``runs``: the other lines.
    """

    plan: KeySpacePlan
    key: KeyRows
    hits: Hits
    runs: Sequence[LineRun]


class ConstantVerdicts:
    """The comparisons and formulas of ``plan``, and how far records that come may move what they are of."""

    def __init__(self, plan: KeySpacePlan) -> None:
        counts = [AggregateSpec(number, -1, "count") for number in range(len(plan.windows))]
        sums = [summed(plan.aggregates[line.aggregate]) for line in plan.lines if may_run(plan, line)]
        aggregates = list(dict.fromkeys([*plan.aggregates, *counts, *sums]))
        self._plan = plan
        self._figures = [_figures_of(line, plan, aggregates, counts) for line in plan.judging]
        probes = tuple(
            FeatureQueryPlan(
                rule_id=line.rule_id,
                version=line.version,
                filter=line.filter_in(plan),
                figures=figures,
                facts=(),
                spans=line.spans,
                judge_lateness_ms=line.judge_lateness_ms,
            )
            for figures, line in zip(self._figures, plan.judging, strict=True)
        )
        self._are_totals = are_totals(plan)
        self._probe = replace(plan, aggregates=tuple(aggregates), lines=(), formulas=(), feature_queries=probes)

    @staticmethod
    def of(plan: Any) -> ConstantVerdicts | None:
        """Those of ``plan``; None where it has verdicts that this cannot speak of."""
        if plan.kind != "windows" or plan.feature_queries or not plan.judging:
            return None
        known = all(plan.aggregates[line.aggregate].aggregate in GROWING for line in plan.lines)
        exact = all(abs(line.threshold) < EXACT for line in plan.lines)
        plain = all(
            not line.cross_key_inputs and line.verdict.scored is None and not line.verdict.waits
            for line in plan.formulas
        )
        return ConstantVerdicts(plan) if known and exact and plain else None

    def judged(
        self, table: Table, make: Callable[[Any], Any], arrivals: Arrivals, *, all_held: bool
    ) -> KeyVerdicts | None:
        """The verdicts of a key of which something is out of order; None where only its variants tell them.

        ``all_held``: whether it matters where a line holds and is no hit.
        """
        key, features = self._as_they_came(table, make, arrivals)
        more, runs = arrivals.later(arrivals.came), list[LineRun]()
        satisfied = np.zeros((len(key.came), 8 * table.bits("sat").shape[1]), np.uint8)
        for number, (line, found) in enumerate(zip(self._plan.judging, features, strict=True)):
            if not len(found.rows):
                continue
            constant = self._constant(key, number, found, more[found.rows])
            if constant is not None:
                satisfied[found.rows, number] = constant
                continue
            run = self._run(key, number, found, all_held=all_held) if may_run(self._plan, line) else None
            if run is None:
                return None
            runs.append(run)
        sat = np.packbits(satisfied[arrivals.order], axis=1, bitorder="little")
        retained = np.arange(len(key.came), dtype=np.int32)
        none = no_hits(np.zeros(len(retained), np.bool_))
        return KeyVerdicts(self._plan, key, replace(none, sat=sat, retained=retained), runs)

    def _constant(self, key: KeyRows, number: int, found: RowFeatures, more: I64) -> bool | None:
        """Whether line ``number`` is satisfied at all rows that it judges, in all variants, and has no hit there.

        False where it never is; None where a variant may have a hit, as far as this can tell.
        """
        line, judged = self._plan.judging[number], found.rows
        bounds = self._bounds(number, key.came, found, more, len(key.arrivals.held))
        truth = truth_at(line, bounds, key.came, judged)
        if not truth.maybe.any():
            return False
        if line.emit_every or not truth.sure.all():
            return None
        return True if self._stays(key, number, key.came.clock_ms[judged]) else None

    def _run(self, key: KeyRows, number: int, found: RowFeatures, *, all_held: bool) -> LineRun | None:
        figure = found.figures[FIGURE]
        if SUM in found.figures:
            figure = replace(found.figures[SUM], defined=figure.defined)
        return run_line(key, self._plan, number, figure, all_held=all_held)

    def _as_they_came(
        self, table: Table, make: Callable[[Any], Any], arrivals: Arrivals
    ) -> tuple[KeyRows, Sequence[RowFeatures]]:
        """The rows of the key, and of each line the figures of those that it judges, as they came."""
        held = len(arrivals.before)
        before = table.bare_batch(arrivals.before, 0, facts=False)
        came = table.bare_batch(arrivals.came, held, facts=True)
        key = KeyRows(table, arrivals, before, came)
        totals = totals_as_they_came(key, self._plan) if self._are_totals else None
        if totals is not None:
            return key, totals
        store = make(self._probe)
        store.duplicate_ms, store.in_order = -ANY_AGE, False
        if held:
            none = np.zeros(0, np.int32)
            store.load(Delta(before, np.zeros((held, 0), np.uint8), none, none), ())
        return key, store.judge(came).features

    def _bounds(self, number: int, batch: KeyedBatch, features: RowFeatures, more: I64, held: int) -> dict[str, Bounds]:
        """The bounds of each figure of line ``number``, by name, at its rows.

        ``more``: how many records its window may get besides. The first ``held`` rows of ``batch`` were there before.
        """
        found = {}
        for name, aggregate_number, _ in self._figures[number]:
            aggregate = self._probe.aggregates[aggregate_number]
            values = np.zeros(0)
            if aggregate.aggregate in ("sum", "avg", "min", "max"):
                entered = bit_of(batch.filters, self._plan.windows[aggregate.window].filter)
                entered[:held] = False
                values = batch.values[aggregate.column][entered].astype(np.float64)
            found[name] = figure_bounds(aggregate.aggregate, features.figures[name], more, values)
        return found

    def _stays(self, key: KeyRows, number: int, clock_ms: I64) -> bool:
        """Whether in every variant each row of line ``number`` follows one that satisfies it and is in its window.

        All rows of the variants satisfy it, at ``clock_ms`` in the order in which they came.
        """
        line = self._plan.judging[number]
        earlier = np.flatnonzero(key.judged_by(line, self._plan, key.before))[-1:]
        if not len(earlier) or not bit_of(key.table.bits("sat")[key.arrivals.before[earlier]], number)[0]:
            return False
        return follow_each_other(int(key.before.clock_ms[earlier[0]]), clock_ms, line.rearm_in(self._plan)[0])


def follow_each_other(earlier_ms: int, clock_ms: I64, rearm_ms: int) -> bool:
    """Whether rows, behind one at ``earlier_ms``, are less than ``rearm_ms`` apart in every variant.

    ``clock_ms``: theirs, in the order in which they came.
    """
    clocks = np.append(np.int64(earlier_ms), clock_ms)
    # What came in order is in every variant from then on; all else comes between such rows.
    ahead = clocks[clocks >= np.maximum.accumulate(clocks)]
    return bool((np.diff(ahead) < rearm_ms).all())


def _figures_of(
    line: Any, plan: KeySpacePlan, aggregates: Sequence[AggregateSpec], counts: Sequence[AggregateSpec]
) -> Figures:
    """The figures of a comparison or formula; a comparison's one is called ``figure``."""
    if line.by_formula:
        of_formula = ((name, plan.aggregates[of], plan.aggregates[count]) for name, of, count in line.figures)
        return tuple((name, aggregates.index(of), aggregates.index(count)) for name, of, count in of_formula)
    compared = plan.aggregates[line.aggregate]
    count, added = aggregates.index(counts[compared.window]), summed(compared)
    figure = (FIGURE, aggregates.index(compared), count)
    if added == compared or added not in aggregates:
        return (figure,)
    return figure, (SUM, aggregates.index(added), count)


def truth_at(line: Any, bounds: Mapping[str, Bounds], batch: KeyedBatch, judged: I64) -> Truth:
    """Whether a comparison or formula is satisfied at the rows that it judged, in every variant or in any."""
    if line.by_formula:
        facts = {name: each.take(pa.array(judged)) for name, each in batch.facts.items()}
        return truth_of(line.verdict.when.root, bounds, facts, len(judged))
    return truth_of_comparison(bounds[FIGURE], line.operator, line.threshold)
