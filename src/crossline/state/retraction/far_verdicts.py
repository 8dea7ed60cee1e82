"""Keys of very many rows whose figures are all far from their thresholds: no row before the late ones is loaded.

In any variant the window of a row has all records of the key before the first one that comes, as far back as it
reaches, and some of those from there on. Totals of the former are summed up at once; they bound the figures of every
variant, as ``constant_verdicts`` has it. Where a bound does not decide, the key is judged by its rows.

    clocks      ......|======== core ========|== cut: the first record that comes ==
                 edge: in some windows        in every window, or in none of some variant
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.values import F64, I64
from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.batch import Bools, FeatureColumn, KeyedBatch, no_hits
from crossline.state.retraction.constant_verdicts import ConstantVerdicts, follow_each_other, truth_at
from crossline.state.retraction.figure_bounds import GROWING, Bounds, figure_bounds
from crossline.state.retraction.moving_lines import bit_of, entering
from crossline.state.retraction.replay_kernel import Piece
from crossline.state.retraction.replays import Replay
from crossline.state.retraction.table import Table
from crossline.state.windows.emission.columns import in_force

FAR_FROM = 8_192  # rows of a key: fewer are soon loaded
RECENT_MS = 2_000  # before what comes: where the last row is looked for that a line judged
PASSED_MAX = 16  # batches in which totals are not tried for a key
_MOST = 2**62


class Tries:
    """Whether to try totals for a key: after each that decided nothing, twice as many batches with it go by as before.

    That saves work, and changes no answer.
    """

    def __init__(self) -> None:
        self._waits: dict[int, tuple[int, int]] = {}  # by key: batches that go by still, and did after the last failure

    def wanted(self, key: int) -> bool:
        """Whether it is the time to; asked once for each batch."""
        left, after = self._waits.get(key, (0, 0))
        if left:
            self._waits[key] = left - 1, after
        return not left

    def note(self, key: int, *, useful: bool) -> None:
        """Whether that decided all of ``key``."""
        if useful:
            self._waits.pop(key, None)
        else:
            after = min(2 * self._waits.get(key, (0, 0))[1] or 1, PASSED_MAX)
            self._waits[key] = after, after


@dataclass(frozen=True, slots=True)
class _Coming:
    """What comes under a key.

    ``old``: the rows before all of that, as far back as windows reach, in any order; ``clock_ms``: theirs. ``final``:
    rows that were there behind the first that comes, and those that come, in order; ``batch``: the same.
    """

    table: Table
    old: I64
    clock_ms: I64
    final: I64
    batch: KeyedBatch


class FarVerdicts:
    """The lines of ``plan``, which ``ConstantVerdicts`` may speak of, decided by totals."""

    def __init__(self, plan: KeySpacePlan) -> None:
        self._plan = plan

    @staticmethod
    def of(plan: Any) -> FarVerdicts | None:
        """Those of ``plan``; None where a figure is of floats, or its window ends before the record."""
        if ConstantVerdicts.of(plan) is None:
            return None
        used = {plan.aggregates[number] for line in plan.judging for number in _aggregates_of(line)}
        windows = [plan.windows[each.window] for each in used]
        if any(each.delay_ms or each.resolution_ms or each.right_open for each in windows):
            return None
        if not all(each.aggregate in GROWING for each in used):  # others may have no column, or a filter in its place
            return None
        summed = [plan.columns[each.column][1] for each in used if each.aggregate not in ("count", "distinct_count")]
        return FarVerdicts(plan) if all(kind == "int" for kind in summed) else None

    def piece(self, table: Table, rows: I64, first: int) -> Piece | None:
        """What there is to judge of a key, with its verdicts; None where totals do not tell them.

        ``rows``: the live ones of the key, in the order in which they came; those from ``first`` on are new.
        """
        coming = self._coming(table, rows, first)
        if coming is None:
            return None
        satisfied = np.zeros((len(coming.final), 8 * table.bits("sat").shape[1]), np.uint8)
        for number, line in enumerate(self._plan.judging):
            judged = np.flatnonzero(_judged_by(line, self._plan, coming.batch))
            if not len(judged):
                continue
            constant = self._constant(coming, number, line, judged)
            if constant is None:
                return None
            satisfied[judged, number] = constant
        retained = np.arange(len(coming.final), dtype=np.int32)
        none = no_hits(np.zeros(len(retained), np.bool_))
        sat = np.packbits(satisfied, axis=1, bitorder="little")
        hits = table.in_order(coming.old[table.bits("hit")[coming.old].any(axis=1)])
        piece = Piece.of([[Replay(hits, coming.final, None)]])
        return piece.known(none, sat, retained)

    def _coming(self, table: Table, rows: I64, first: int) -> _Coming | None:
        """None where rows of one clock came in another order than they are in, as of ``arrivals_of``."""
        clock_ms = table.number("clock_ms")[rows]
        new = int(np.searchsorted(rows, first))
        cut_ms = int(clock_ms[new:].min())
        near = table.in_order(rows[clock_ms >= cut_ms])
        final = near[int(np.argmax(near >= first)) :]
        came = np.sort(final)
        if (came[np.argsort(table.number("clock_ms")[came], kind="stable")] != final).any():
            return None
        back = (clock_ms < cut_ms) & (clock_ms >= cut_ms - (self._plan.retention_ms + 1))
        old, old_ms = rows[back], clock_ms[back]
        ahead = near[: len(near) - len(final)]
        if len(ahead):
            old, old_ms = np.append(old, ahead), np.append(old_ms, np.full(len(ahead), cut_ms))
        return _Coming(table, old, old_ms, final, table.bare_batch(final, 0, facts=True))

    def _constant(self, coming: _Coming, number: int, line: Any, judged: I64) -> bool | None:
        """As of ``ConstantVerdicts``: whether the line is satisfied at all rows that it judges, in all variants."""
        bounds = self._bounds(coming, line, judged)
        truth = truth_at(line, bounds, coming.batch, judged)
        if not truth.maybe.any():
            return False
        if line.emit_every or not truth.sure.all():
            return None
        return True if self._stays(coming, number, line, judged) else None

    def _bounds(self, coming: _Coming, line: Any, judged: I64) -> Mapping[str, Bounds]:
        if not line.by_formula:
            return {"figure": self._figure_bounds(coming, self._plan.aggregates[line.aggregate], judged)}
        figures = ((name, self._plan.aggregates[of]) for name, of, _ in line.figures)
        return {name: self._figure_bounds(coming, of, judged) for name, of in figures}

    def _figure_bounds(self, coming: _Coming, of: AggregateSpec, judged: I64) -> Bounds:
        window, kind = self._plan.windows[of.window], of.aggregate
        entered, values = entering(coming.batch, window.filter), np.zeros(0)
        more = np.full(len(judged), np.count_nonzero(entered), np.int64)
        if kind not in ("count", "distinct_count"):
            values = coming.batch.values[of.column][entered].astype(np.float64)
        figure = _totals(coming, window, of, coming.batch.clock_ms[judged])
        if figure is None:
            return Bounds.unknown(len(judged))
        if kind == "distinct_count":
            least = figure.defined.astype(np.int64)
            table, column = coming.table, coming.table.values(of.column)
            more = np.maximum(table.different.at_most(of.column, column, len(table)) - least, 0)
            figure = FeatureColumn(least, None, figure.defined, figure.counts)
        return figure_bounds(kind, figure, more, values)

    def _stays(self, coming: _Coming, number: int, line: Any, judged: I64) -> bool:
        """As of ``ConstantVerdicts``; False where it judged nothing just before."""
        table, cut_ms = coming.table, int(coming.batch.clock_ms[0])
        recent = coming.old[coming.clock_ms >= cut_ms - RECENT_MS]
        mine = bit_of(table.filters[recent], line.filter_in(self._plan))
        times = table.number("ingest_ms")[recent], table.number("lateness_ms")[recent]
        earlier = table.in_order(recent[mine & in_force(line.spans, line.judge_lateness_ms, *times)])[-1:]
        if not len(earlier) or not bit_of(table.bits("sat")[earlier], number)[0]:
            return False
        came = np.argsort(coming.final)  # in the order in which they came
        of_line = np.zeros(len(came), np.bool_)
        of_line[judged] = True
        clock_ms = coming.batch.clock_ms[came[of_line[came]]]
        return follow_each_other(table.clock(int(earlier[0])), clock_ms, line.rearm_in(self._plan)[0])


def _aggregates_of(line: Any) -> list[int]:
    return [of for _, of, _ in line.figures] if line.by_formula else [line.aggregate]


def _judged_by(line: Any, plan: KeySpacePlan, batch: KeyedBatch) -> Bools:
    judged = entering(batch, line.filter_in(plan))
    judged &= in_force(line.spans, line.judge_lateness_ms, batch.ingest_ms, batch.lateness_ms)
    return judged


def _totals(coming: _Coming, window: WindowSpec, of: AggregateSpec, now_ms: I64) -> FeatureColumn | None:
    """Of rows at ``now_ms`` the figure of the old rows in their windows alone; None where it does not fit.

    Of different values there are only the counts.
    """
    first_ms = now_ms - window.window_ms + (not window.left_closed)
    least_ms, most_ms = int(first_ms.min()), int(first_ms.max())
    inside = coming.clock_ms >= least_ms
    inside &= bit_of(coming.table.filters[coming.old], window.filter)
    core = inside & (coming.clock_ms >= most_ms)
    edge = np.flatnonzero(inside & ~core)
    edge = edge[np.argsort(coming.clock_ms[edge], kind="stable")]
    at = np.searchsorted(coming.clock_ms[edge], first_ms, side="left")
    counts = np.count_nonzero(core) + len(edge) - at
    if of.aggregate in ("count", "distinct_count"):
        return FeatureColumn(counts, None, counts > 0, counts)
    column = coming.table.values(of.column).rows
    in_core, at_edge = column[coming.old[core]].astype(np.int64), column[coming.old[edge]].astype(np.int64)
    values = _running(of.aggregate, in_core, at_edge)[at] if _sums_fit(in_core, at_edge) else None
    if values is None:
        return None
    if of.aggregate == "avg":
        mean: F64 = values / np.maximum(counts, 1)
        return FeatureColumn(mean, None, counts > 0, counts)
    return FeatureColumn(values, None, counts > 0, counts)


def _sums_fit(*values: I64) -> bool:
    """Whether 64 bits hold all sums of some of ``values``."""
    size = max((max(abs(int(each.min())), abs(int(each.max()))) for each in values if len(each)), default=0)
    return size * sum(map(len, values)) < _MOST


def _running(kind: str, core: I64, edge: I64) -> I64:
    """The figure of the core and of the edge from each place of this on; the last: of the core alone."""
    last = {"max": -_MOST, "min": _MOST}.get(kind, 0)
    run = {"max": np.maximum, "min": np.minimum}.get(kind, np.add)
    whole = run.reduce(core, initial=last)
    found: I64 = run.accumulate(np.append(edge, whole)[::-1])[::-1]
    return found
