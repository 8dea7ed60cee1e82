"""A key space's plan as flat arrays that compiled code walks: what belongs to a window is contiguous, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from crossline.basics.values import F64, I32, I64, U8
from crossline.plan.spaces import (
    AggregateSpec,
    ComparisonPlan,
    FeatureQueryPlan,
    FormulaPlan,
    KeySpacePlan,
    WindowPlan,
    WindowSpec,
)
from crossline.programs.registry import aggregates, declared
from crossline.state.windows.emission.columns import cooldowns, members
from crossline.state.windows.line_bounds import bounds_of, quiet_ranges, wide_bounds

# Kinds of pointers into a window.
MIN, MAX, FIRST, LAST = 0, 1, 2, 3
# What a window may keep for an aggregate: pointers to records, by their values or by their clocks alone; a sum; sums of
# squares; a sum that decays; how many values there are that no other record of the window has.
_POINTERS = {"min": MIN, "max": MAX, "first": FIRST, "last": LAST, "earliest": FIRST, "latest": LAST}
_OF_CLOCKS = ("earliest", "latest")
KEPT = (*_POINTERS, "sum", "squares", "decayed", "different")
MASKED_CLASSES = 62  # classes that have a bit of their own in a mask
I64_MIN, I64_MAX = -(2**63), 2**63 - 1


class KernelProgram(NamedTuple):
    """See ``compile_plan``. ``x_at`` arrays hold where the x of cursor c begin and end; ``_col`` columns of values."""

    column_float: U8
    window_filter: I32  # per window
    window: I64
    left_closed: U8
    right_open: U8
    include: U8
    si_at: I32  # integer sums
    si_col: I32
    sf_at: I32  # float sums
    sf_col: I32
    pt_at: I32  # pointers
    pt_kind: I32
    pt_col: I32
    pt_chain: I32
    sd_at: I32  # standard deviations, and decayed sums
    sd_col: I32
    sd_half: I64  # of a decayed sum the half life; 0 of a deviation
    plain: U8  # per cursor: it has no accumulators, only the count
    dc_at: I32  # distinct counts
    dc_link: I32
    chain_filter: I32  # chains of nearest earlier smaller (larger) values
    chain_col: I32
    chain_max: U8
    link_filter: I32  # links between occurrences of a value
    link_col: I32
    run_of: I32  # per cursor: the one whose run and accumulators it reads (see ``_runs``)
    turn: I32  # cursors in the order in which a record is judged by them
    aggregate_at: I32
    aggregate_kind: I32
    aggregate_acc: I32  # numbers of the accumulators the group reads, -1 where there is none
    aggregate_acc_2: I32
    aggregate_col: I32
    line_at: I32  # lines of a group
    line_plan: I32  # number in plan.lines = bit number
    low_i: I64  # satisfied where low <= value <= high, or where not, if negated
    high_i: I64
    low_rest: I64  # the same bounds without an end, each as rest + up * 2^64
    low_up: I64
    high_rest: I64
    high_up: I64
    low_f: F64
    high_f: F64
    negated: U8
    quiet_low_i: I64  # of a group: where none of its lines is satisfied
    quiet_high_i: I64
    quiet_low_f: F64
    quiet_high_f: F64
    line_class: I32
    every: U8  # of lines and formulas, by their numbers in the plan
    rearm: I64
    cooldown: I64
    cooldown_col: I64
    class_at: I32  # classes of a cursor
    class_of: I32
    class_filter: I32  # lines that judge the same records share a class
    span_at: I32  # spans of a class
    span_from: I64
    span_until: I64
    class_late: I64
    class_mask: I64  # per cursor: bits of its classes
    beginning: I32  # of the windows that begin as far before a record, the first
    delay: I64
    begins: I64  # of the window, before the record: the first and the last clock in it
    ends: I64
    adds: U8
    aggregate_figure: I32  # numbers of the output figures, those for formulas first
    sortable: U8  # per cursor: its figures are counts and sums of integers alone
    formula_class: I32
    formula_window: I32
    formula_count: I32


JudgeClass = tuple[int, tuple[tuple[int, int], ...], int, bool]


def judge_class(plan: WindowPlan, line: ComparisonPlan | FormulaPlan | FeatureQueryPlan) -> JudgeClass:
    """What decides which records a line judges: entry, spans of ingest time, the latest lateness; and when."""
    late = I64_MAX if line.judge_lateness_ms is None else line.judge_lateness_ms
    spans = tuple((_clip(start), _clip(end)) for start, end in line.spans)
    return line.filter_in(plan), spans, _clip(late), line.by_formula


def classes(plan: WindowPlan) -> dict[JudgeClass, int]:
    """The classes of the plan's lines and feature queries, numbered; those of its formulas come after."""
    lines: tuple[ComparisonPlan | FormulaPlan | FeatureQueryPlan, ...] = (
        *plan.lines,
        *plan.feature_queries,
        *plan.formulas,
    )
    return {c: i for i, c in enumerate(dict.fromkeys(judge_class(plan, line) for line in lines))}


def class_lines(plan: WindowPlan) -> U8:
    """Bits of the lines of each class, a row of bytes each."""
    numbers = classes(plan)
    return members([numbers[judge_class(plan, line)] for line in plan.judging], len(numbers))


def output_aggregates(plan: WindowPlan) -> tuple[int, ...]:
    """The numbers of the aggregates that formulas or feature queries read, in ascending order."""
    reads = [each.figures for each in plan.formulas] + [each.figures for each in plan.feature_queries]
    return tuple(sorted({number for each in reads for _, *groups in each for number in groups}))


def all_output_aggregates(plan: WindowPlan) -> tuple[int, ...]:
    """The groups in use: first those of ``output_aggregates``, then those of thresholds only."""
    return tuple(dict.fromkeys((*output_aggregates(plan), *sorted(line.aggregate for line in plan.lines))))


def is_float(plan: WindowPlan, group: AggregateSpec) -> bool:
    """Whether the group's column holds floats."""
    of_field = group.column >= 0 and not declared(group.aggregate).of_records
    return of_field and plan.columns[group.column][1] == "float"


def kind_of(plan: WindowPlan, group: AggregateSpec) -> int:
    """The kind of the group's figure, of windows and of panes: by its aggregate and what its column holds."""
    return figure_kinds()[group.aggregate, is_float(plan, group)]


@cache
def figure_kinds() -> dict[tuple[str, bool], int]:
    """The number of each aggregate of integers, and of floats: the count, what gives integers, what gives floats."""
    each = [(name, real) for name, of in aggregates().items() for real in {False, not of.of_records}]
    each.sort(key=lambda of: (of[0] != "count", _gives_float(*of), *of))
    return {of: number for number, of in enumerate(each)}


def _gives_float(name: str, real: bool) -> bool:
    return declared(name).kind("number" if real else "integer") == "number"


COUNT = 0
INT_KINDS = range(sum(not _gives_float(*of) for of in figure_kinds()))
INTEGERS = len(INT_KINDS)  # kinds from here on are floats
AVG_INT = figure_kinds()["avg", False]


def check(plan: KeySpacePlan) -> None:
    """Raises ValueError where an aggregate is not defined on its column, or on windows at all."""
    for group in plan.aggregates:
        aggregate = aggregates().get(group.aggregate)
        if aggregate is None or aggregate.window is None:
            raise ValueError(f"{group.aggregate} is not defined on windows of records")
        if aggregate.of_records:
            continue
        kind = plan.columns[group.column][1] if group.column >= 0 else "absent"
        if kind == "absent" or (kind == "code" and aggregate.takes != "values"):
            raise ValueError(f"{group.aggregate} is not defined on a column of kind {kind}")


class _Parts:
    """Unique accumulators, chains and links that the groups need; a key of an accumulator starts with its cursor."""

    def __init__(self, plan: KeySpacePlan) -> None:
        self.plan = plan
        self.run_of = _runs(plan.windows)
        needed: dict[str, set[tuple[int, ...]]] = {"si": set(), "sf": set(), "sd": set(), "pt": set(), "dc": set()}
        self.chains: dict[tuple[int, int, int], int] = {}
        self.links: dict[tuple[int, int], int] = {}
        for group in plan.aggregates:
            for kind, key in self.accumulators(group):
                needed[kind].add(key)
        self.sorted = {kind: sorted(keys) for kind, keys in needed.items()}
        self.number = {kind: {key: i for i, key in enumerate(keys)} for kind, keys in self.sorted.items()}

    def accumulators(self, group: AggregateSpec) -> list[tuple[str, tuple[int, ...]]]:
        """Kind and key of each accumulator that ``group`` reads."""
        return [self._accumulator(group, kept) for kept in declared(group.aggregate).window or ()]

    def _accumulator(self, group: AggregateSpec, kept: str) -> tuple[str, tuple[int, ...]]:
        entry, cursor = self.plan.windows[group.window].filter, self.run_of[group.window]
        if kept == "sum":
            return "sf" if is_float(self.plan, group) else "si", (cursor, group.column)
        if kept in {"squares", "decayed"}:
            return "sd", (cursor, group.column, group.half_life_ms)
        if kept in _OF_CLOCKS:
            return "pt", (cursor, _POINTERS[kept], -1, -1)
        if kept in _POINTERS:
            kind = _POINTERS[kept]
            if kind > MAX:  # of the first and the last record, whatever is read of it
                return "pt", (cursor, kind, -1, -1)
            chain = self.chains.setdefault((entry, group.column, kind), len(self.chains))
            return "pt", (cursor, kind, group.column, chain)
        if kept == "different":
            return "dc", (cursor, self.links.setdefault((entry, group.column), len(self.links)))
        raise ValueError(f"windows keep no {kept} for {group.aggregate}: there are {', '.join(KEPT)}")

    def numbers(self, group: AggregateSpec) -> tuple[int, int]:
        """Of the accumulators that ``group`` reads; -1: none."""
        first, second, *_ = *(self.number[kind][key] for kind, key in self.accumulators(group)), -1, -1
        return first, second

    def starts(self, cursors: Iterable[int]) -> I32:
        """Where each cursor's part of a sorted list begins; one more for the end."""
        return np.searchsorted(np.array(list(cursors), np.int64), np.arange(len(self.plan.windows) + 1)).astype(
            np.int32
        )

    def arrays(self) -> dict[str, Any]:
        """The KernelProgram's fields for accumulators, chains and links."""
        out: dict[str, Any] = {f"{kind}_at": self.starts(k[0] for k in keys) for kind, keys in self.sorted.items()}
        pointers = self.sorted["pt"]
        accumulated = {k[0] for keys in self.sorted.values() for k in keys}
        return out | {
            "si_col": _ints(k[1] for k in self.sorted["si"]),
            "sf_col": _ints(k[1] for k in self.sorted["sf"]),
            "sd_col": _ints(k[1] for k in self.sorted["sd"]),
            "sd_half": _longs(k[2] for k in self.sorted["sd"]),
            "plain": _bytes(c not in accumulated for c in range(len(self.plan.windows))),
            "pt_kind": _ints(k[1] for k in pointers),
            "pt_col": _ints(k[2] for k in pointers),
            "pt_chain": _ints(k[3] for k in pointers),
            "dc_link": _ints(k[1] for k in self.sorted["dc"]),
            "chain_filter": _ints(c[0] for c in self.chains),
            "chain_col": _ints(c[1] for c in self.chains),
            "chain_max": _bytes(c[2] == MAX for c in self.chains),
            "link_filter": _ints(x[0] for x in self.links),
            "link_col": _ints(x[1] for x in self.links),
        }


def compile_plan(plan: KeySpacePlan) -> KernelProgram:
    """The arrays for ``plan``.

    Raises:
        ValueError: an aggregate of a column that it is not defined on.
    """
    check(plan)
    return KernelProgram(
        column_float=_bytes(kind == "float" for _, kind in plan.columns),
        window_filter=_ints(c.filter for c in plan.windows),
        window=_longs(c.window_ms for c in plan.windows),
        left_closed=_bytes(c.left_closed for c in plan.windows),
        right_open=_bytes(c.right_open for c in plan.windows),
        include=_bytes(c.include_current for c in plan.windows),
        delay=_longs(c.delay_ms for c in plan.windows),
        begins=_longs(_begins(c) for c in plan.windows),
        ends=_longs(c.delay_ms + c.right_open for c in plan.windows),
        beginning=_ints({_begins(plan.windows[k]): k for k in reversed(_runs(plan.windows))}.values()),
        run_of=_ints(_runs(plan.windows)),
        turn=_ints(_turns(plan.windows)),
        adds=_bytes(c.right_open and c.include_current and not c.delay_ms for c in plan.windows),
        **_Parts(plan).arrays(),
        **_judging(plan),
    )


def _judging(plan: KeySpacePlan) -> dict[str, Any]:
    """Groups by cursor, lines by group, classes by cursor."""
    parts, output_groups = _Parts(plan), all_output_aggregates(plan)
    used = set(output_groups)
    groups = sorted(used, key=lambda g: (plan.aggregates[g].window, g))
    read = [parts.numbers(plan.aggregates[g]) for g in groups]
    lines = sorted(range(len(plan.lines)), key=lambda i: (groups.index(plan.lines[i].aggregate), i))
    number = classes(plan)
    by_group: list[tuple[int, ComparisonPlan | FormulaPlan | FeatureQueryPlan]] = [(x.aggregate, x) for x in plan.lines]
    by_group += [(g, x) for x in plan.formulas for _, *reads in x.figures for g in reads]
    by_group += [(g, x) for x in plan.feature_queries for _, *reads in x.figures for g in reads]
    of_cursor = sorted({(plan.aggregates[g].window, number[judge_class(plan, x)]) for g, x in by_group})
    line_group = np.array([groups.index(plan.lines[i].aggregate) for i in lines], np.int64)
    bounds = [bounds_of(plan.lines[i].operator, plan.lines[i].threshold) for i in lines]
    negated = [plan.lines[i].operator == "!=" for i in lines]
    line_at = np.searchsorted(line_group, np.arange(len(groups) + 1)).astype(np.int32)
    return {
        "aggregate_at": parts.starts(plan.aggregates[g].window for g in groups),
        "aggregate_kind": _ints(kind_of(plan, plan.aggregates[g]) for g in groups),
        "aggregate_acc": _ints(first for first, _ in read),
        "aggregate_acc_2": _ints(second for _, second in read),
        "aggregate_col": _ints(plan.aggregates[g].column for g in groups),
        "line_at": line_at,
        "line_plan": _ints(lines),
        **wide_bounds(bounds),
        "low_f": np.array([b[2] for b in bounds], np.float64),
        "high_f": np.array([b[3] for b in bounds], np.float64),
        "negated": _bytes(negated),
        **quiet_ranges(bounds, negated, line_at.tolist()),
        "every": _bytes(each.emit_every for each in plan.judging),
        "rearm": _longs(each.rearm_in(plan)[0] for each in plan.judging),
        **cooldowns(plan.judging),
        "line_class": _ints(number[judge_class(plan, plan.lines[i])] for i in lines),
        "class_at": parts.starts(c for c, _ in of_cursor),
        "class_of": _ints(k for _, k in of_cursor),
        "class_filter": _ints(c[0] for c in number),
        "span_at": np.cumsum([0, *(len(c[1]) for c in number)]).astype(np.int32),
        "span_from": _longs(start for c in number for start, _ in c[1]),
        "span_until": _longs(end for c in number for _, end in c[1]),
        "class_late": _longs(c[2] for c in number),
        "class_mask": _masks(of_cursor, len(plan.windows)),
        "aggregate_figure": _ints(output_groups.index(g) for g in groups),
        "sortable": _bytes(_sortable(plan, c) for c in range(len(plan.windows))),
        **_formulas(plan),
    }


def _runs(windows: Sequence[WindowSpec]) -> list[int]:
    """Of each window the number of the one that keeps its records and what is added up of them.

    A window without the judged record has those of the window with it until that record is taken in, so both are one
    run that moves twice. A record is judged by the window without it first (``turn``).
    """
    with_record = {each: number for number, each in enumerate(windows) if each.include_current}
    return [
        number if each.delay_ms or each.right_open else with_record.get(replace(each, include_current=True), number)
        for number, each in enumerate(windows)
    ]


def _turns(windows: Sequence[WindowSpec]) -> list[int]:
    """The windows in the order in which a record is judged by them: by run, those without it first."""
    runs = _runs(windows)
    return sorted(range(len(windows)), key=lambda c: (runs[c], windows[c].include_current, c))


def _begins(window: WindowSpec) -> int:
    """How long before a record the first clock in its window is, in ms."""
    return window.delay_ms + window.window_ms - 1 + window.left_closed


def _masks(of_cursor: Iterable[tuple[int, int]], cursors: int) -> I64:
    """Bits of each cursor's classes; those from MASKED_CLASSES on share the highest."""
    masks = [0] * cursors
    for cursor, number in of_cursor:
        masks[cursor] |= 1 << min(number, MASKED_CLASSES)
    return _longs(masks)


def _sortable(plan: KeySpacePlan, cursor: int) -> bool:
    """Whether what a record adds to the cursor's figures can be subtracted again in any order."""
    mine = [
        plan.aggregates[number] for number in all_output_aggregates(plan) if plan.aggregates[number].window == cursor
    ]
    return all(declared(each.aggregate).sortable and not is_float(plan, each) for each in mine)


def _formulas(plan: KeySpacePlan) -> dict[str, Any]:
    number, output_groups, formulas = classes(plan), output_aggregates(plan), plan.formulas
    return {
        "formula_class": _ints(number[judge_class(plan, each)] for each in formulas),
        "formula_window": _ints(plan.aggregates[each.figures[0][2]].window for each in formulas),
        "formula_count": _ints(output_groups.index(each.figures[0][2]) for each in formulas),
    }


def _clip(value: int) -> int:
    return max(I64_MIN, min(I64_MAX, value))


def _ints(values: Iterable[int]) -> I32:
    return np.array(list(values), dtype=np.int32)


def _longs(values: Iterable[int]) -> I64:
    return np.array(list(values), dtype=np.int64)


def _bytes(values: Iterable[bool]) -> U8:
    return np.array(list(values), dtype=np.uint8)
