"""Lines whose verdicts records out of order may change, run record by record by the kernel of arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import F64, I64
from crossline.plan.spaces import AggregateSpec, ComparisonPlan, KeySpacePlan
from crossline.state.batch import Bools, FeatureColumn, KeyedBatch
from crossline.state.retraction import arrival_kernel as at
from crossline.state.retraction.figure_bounds import EXACT
from crossline.state.retraction.replays import Arrivals
from crossline.state.retraction.table import Table
from crossline.state.windows.emission.columns import in_force
from crossline.state.windows.line_bounds import bounds_of, wide_bounds

_KINDS = {"count": at.COUNT, "sum": at.SUM, "avg": at.AVG, "min": at.MIN, "max": at.MAX, "distinct_count": at.DISTINCT}


def summed(aggregate: AggregateSpec) -> AggregateSpec:
    """The aggregate whose figure the kernel of arrivals adds to: of an average the sum."""
    return AggregateSpec(aggregate.window, aggregate.column, "sum") if aggregate.aggregate == "avg" else aggregate


def may_run(plan: KeySpacePlan, line: Any) -> bool:
    """Whether the kernel of arrivals can run ``line``: a comparison of an integer, of a window up to the record."""
    if line.by_formula or line.emit_every:
        return False
    aggregate = plan.aggregates[line.aggregate]
    window = plan.windows[aggregate.window]
    if aggregate.aggregate not in _KINDS or window.delay_ms or window.resolution_ms:
        return False
    if aggregate.column >= 0 and plan.columns[aggregate.column][1] == "float":
        return False
    return aggregate.aggregate != "distinct_count" or (window.include_current and not window.right_open)


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The rows of one key: those ``before`` and those that ``came``, as batches of the plan's columns.

    ``known``: what ``values_of`` found, by column and whether that is codes.
    """

    table: Table
    arrivals: Arrivals
    before: KeyedBatch
    came: KeyedBatch
    known: dict[tuple[int, bool], I64] = field(default_factory=dict)

    def judged_by(self, line: Any, plan: KeySpacePlan, batch: KeyedBatch) -> Bools:
        """The rows of ``batch`` that ``line`` judges."""
        judged = entering(batch, line.filter_in(plan))
        judged &= in_force(line.spans, line.judge_lateness_ms, batch.ingest_ms, batch.lateness_ms)
        return judged


@dataclass(frozen=True, slots=True)
class LineRun:
    """What came of one line, number ``line``: its rows in order, the entries and the steps, as the kernel has them."""

    line: int
    rows: I64
    entries: I64
    steps: I64


def run_line(key: KeyRows, plan: KeySpacePlan, line: int, figure: FeatureColumn, *, all_held: bool) -> LineRun | None:
    """Let the rows of a key come, one by one, and decide line number ``line``.

    Args:
        key: the rows.
        plan: of the line, which ``may_run``.
        line: its number.
        figure: at each row that it judges, as they came, the figure of then; of an average the sum.
        all_held: whether to list also where the line holds and is no hit.

    None where a figure may leave what floats have of the integers.
    """
    of, arrivals = plan.lines[line], key.arrivals
    held, count = len(arrivals.held), len(arrivals.order)
    judged = key.judged_by(of, plan, key.came)
    values = values_of(key, plan.aggregates[of.aggregate])
    entered = entering(key.came, plan.windows[plan.aggregates[of.aggregate].window].filter)
    if figure.up is not None or figure.values.dtype != np.int64 or not _fits(figure, values[-count:][entered]):
        return None
    rows = np.zeros((at.ROW_FIELDS, count), np.int64)
    place = np.empty(count, np.int64)
    place[arrivals.order] = np.arange(count)
    rows[at.CAME] = arrivals.order
    rows[at.CLOCK] = key.came.clock_ms[arrivals.order]
    rows[at.ENTERS] = entered[arrivals.order]
    rows[at.JUDGED] = judged[arrivals.order]
    rows[at.VALUE] = values[-count:][arrivals.order]
    told = key.table.bits("told")[arrivals.final, line >> 3] >> (line & 7) & 1
    rows[at.TOLD] = told
    mine = place[np.flatnonzero(judged)]
    rows[at.WHOLE, mine], rows[at.COUNT_IN, mine], rows[at.DEFINED, mine] = figure.values, figure.counts, figure.defined
    low, high, low_f, high_f = bounds_of(of.operator, of.threshold)
    cut = wide_bounds([(low, high, low_f, high_f)])
    words = _line_words(key, plan, line)
    words[at.LOW], words[at.HIGH], words[at.ALL_HELD] = cut["low_i"][0], cut["high_i"][0], all_held
    progress = at.new_progress(held, int(place[held - 1]) if held else -1)
    seen = _seen(key, of, plan, values)
    return LineRun(line, rows, *_ran(rows, place, words, np.array([low_f, high_f]), seen, progress))


def _ran(rows: I64, place: I64, words: I64, real: F64, seen: I64, progress: I64) -> tuple[I64, I64]:
    """The entries and the steps."""
    count, found = len(place), list[I64]()
    steps, entries = np.zeros((count + 1, at.STEP_FIELDS), np.int64), np.empty((4 * count, at.ENTRY_FIELDS), np.int64)
    run, more = at.compiled(), 1
    while more:
        more = run(rows, place, words, real, seen, progress, steps, entries)
        found.append(entries[: progress[at.ENTRIES]].copy())
        progress[at.ENTRIES] = 0
    return np.concatenate(found), steps[: progress[at.STEPS]]


def _fits(figure: FeatureColumn, values: I64) -> bool:
    """Whether all figures stay where floats have every integer, whatever of ``values`` comes besides."""
    most = int(np.abs(figure.values).max()) if len(figure.values) else 0
    size = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    return most + size * (len(values) + 1) < EXACT


def _line_words(key: KeyRows, plan: KeySpacePlan, line: int) -> I64:
    """The fields of the line, but for its bounds."""
    of, table, before = plan.lines[line], key.table, key.arrivals.before
    aggregate = plan.aggregates[of.aggregate]
    window, words = plan.windows[aggregate.window], np.zeros(at.LINE_FIELDS, np.int64)
    words[at.KIND], words[at.NEGATED] = _KINDS[aggregate.aggregate], of.operator == "!="
    words[at.BEGINS], words[at.ENDS] = window.window_ms - (not window.left_closed), window.right_open
    words[at.REARM], words[at.COOLDOWN] = of.rearm_in(plan)[0], of.cooldown_ms
    words[at.JUDGED_MS] = words[at.EMITTED_MS] = at.NONE_MS
    judged = np.flatnonzero(key.judged_by(of, plan, key.before))[-1:]
    if len(judged):
        words[at.JUDGED_MS] = key.before.clock_ms[judged[0]]
        words[at.HELD] = bit_of(table.bits("sat")[before[judged]], line)[0]
    emitted = np.flatnonzero(bit_of(table.bits("emitted")[before], line))[-1:]
    if len(emitted):
        words[at.EMITTED_MS] = key.before.clock_ms[emitted[0]]
    return words


def values_of(key: KeyRows, aggregate: AggregateSpec) -> I64:
    """The values of the rows before and of those that came; of texts and of what is counted, codes."""
    name = aggregate.column, aggregate.aggregate == "distinct_count"
    if name not in key.known:
        key.known[name] = _values(key, *name)
    return key.known[name]


def _values(key: KeyRows, column: int, coded: bool) -> I64:
    if column < 0:
        return np.zeros(len(key.before) + len(key.came), np.int64)
    if not coded:
        return np.append(key.before.values[column], key.came.values[column])
    batches = (key.before, key.came)
    if column in key.came.texts:
        arrays = [pa.array([], pa.large_binary())] + [_texts(each, column) for each in batches]
    else:
        arrays = [pa.array(each.values[column]) for each in batches]
    codes = pa.chunked_array(arrays).combine_chunks().dictionary_encode().indices
    values: I64 = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _texts(batch: KeyedBatch, column: int) -> pa.Array:
    data, offsets = batch.texts[column]
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers).take(pa.array(batch.values[column]))


def _seen(key: KeyRows, of: ComparisonPlan, plan: KeySpacePlan, values: I64) -> I64:
    """Of each code the clock of the last record before that has it and is in windows."""
    if plan.aggregates[of.aggregate].aggregate != "distinct_count":
        return np.zeros(1, np.int64)
    seen = np.full(int(values.max()) + 1, at.NONE_MS, np.int64)
    mine = entering(key.before, of.filter_in(plan))
    np.maximum.at(seen, values[: len(key.before)][mine], key.before.clock_ms[mine])
    return seen


def entering(batch: KeyedBatch, number: int) -> Bools:
    """The rows of ``batch`` that enter filter ``number``."""
    return bit_of(batch.filters, number)


def bit_of(bits: Any, number: int) -> Bools:
    """Bit ``number`` of each row of ``bits``."""
    found: Bools = ((bits[:, number >> 3] >> (number & 7)) & 1).astype(np.bool_)
    return found


def line_ranks(plan: KeySpacePlan) -> Sequence[int]:
    """Of each line the place that its hits have among those at one row."""
    by = sorted(range(len(plan.lines)), key=lambda i: (*_group(plan, i), i))
    return [by.index(i) for i in range(len(plan.lines))]


def _group(plan: KeySpacePlan, line: int) -> tuple[int, int]:
    number = plan.lines[line].aggregate
    return plan.aggregates[number].window, number
