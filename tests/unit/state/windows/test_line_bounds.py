"""Where no threshold is satisfied nothing is compared; where one may be, or was, all are."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.memory import layout as at
from crossline.state.windows.line_bounds import bounds_of, quiet_ranges
from crossline.state.windows.program import MASKED_CLASSES
from crossline.state.windows.store import KeySpaceState
from crossline.state.windows.verdicts.figure_columns import FigureColumns
from drawing import one_of_these

from .naive import OPERATORS, Hit, Naive, Row, batch_of, count_plan, line, plain

THRESHOLDS = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([-2.5, 0.5, 1.5, 2**63 - 1, -(2**63), 2**63, -(2**64), 1e300, -1e300]),
)
LINES = st.lists(st.tuples(st.sampled_from(sorted(OPERATORS)), THRESHOLDS), max_size=4)
WHOLE = (*range(-8, 9), 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)
REAL = (*(x / 4 for x in range(-30, 31)), -math.inf, math.inf, 1e300, -1e300, 2.0**63, math.nan, 5e-324)


@given(st.lists(LINES, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_no_figure_of_a_quiet_range_satisfies_a_line(groups: list[list[tuple[Any, Any]]]) -> None:
    every = [each for group in groups for each in group]
    bounds, negated = [bounds_of(*each) for each in every], [sign == "!=" for sign, _ in every]
    starts = [sum(map(len, groups[:n])) for n in range(len(groups) + 1)]
    found: Any = quiet_ranges(bounds, negated, starts)
    for n, group in enumerate(groups):
        met = [x for x in WHOLE if any(OPERATORS[sign](x, threshold) for sign, threshold in group)]
        assert not [x for x in met if found["quiet_low_i"][n] <= x <= found["quiet_high_i"][n]]
        met_real = [x for x in REAL if any(OPERATORS[sign](x, threshold) for sign, threshold in group)]
        assert not [x for x in met_real if found["quiet_low_f"][n] < x < found["quiet_high_f"][n]]


@pytest.mark.parametrize(
    ("lines", "low", "high"),
    [
        ([(">=", 10), (">", 20)], -(2**63), 9),
        ([("<=", 3)], 4, 2**63 - 1),
        ([("<", 3), (">", 8.5)], 3, 8),
        ([("!=", 5)], 5, 5),
        ([("!=", 5.5)], 1, 0),
        ([(">=", 1), ("<", 1)], 1, 0),
        ([], -(2**63), 2**63 - 1),
    ],
)
def test_the_range_is_as_wide_as_it_can_be(lines: list[Any], low: int, high: int) -> None:
    bounds = [bounds_of(*each) for each in lines]
    found = quiet_ranges(bounds, [sign == "!=" for sign, _ in lines], [0, len(lines)])
    assert (found["quiet_low_i"].tolist(), found["quiet_high_i"].tolist()) == ([low], [high])


AGGREGATES = ("sum", "avg", "min", "max", "stddev", "first", "last", "distinct_count")
# Near-constant values, whose deviation is what is left of two large sums; and small ones.
VALUES = st.one_of(st.integers(-3, 4), st.integers(10**9, 10**9 + 3), st.sampled_from([2**53, 2**62, -(2**62)]))
# No deviation of so few of these is one of the thresholds: the twin's may be a digit off.
NEAR = st.sampled_from([-3.5, 0.2345, 0.8765, 1.2345, 2.3456, 3.4567, 10**9 + 0.75, 2.0**62, 3 * 2**62, 2**61])


@st.composite
def plans(draw: Any) -> KeySpacePlan:
    """Few lines of each aggregate, so that mostly none is satisfied."""
    cursors = (WindowSpec(0, 40, False, False, True), WindowSpec(0, 15, False, True, True))
    groups = tuple(AggregateSpec(c, column, name) for c in range(2) for column in (0, 1) for name in AGGREGATES)  # type: ignore[arg-type]
    read = draw(st.lists(st.tuples(st.integers(0, len(groups) - 1), st.sampled_from(sorted(OPERATORS)), NEAR)))
    lines = tuple(line(g, op, x, rule_id=f"r{n}", emit_every=draw(st.booleans())) for n, (g, op, x) in enumerate(read))
    return KeySpacePlan((("i", "int"), ("f", "float")), 1, cursors, groups, lines, 40)


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    batches, now, number = [], 0, 0
    for size in draw(st.lists(st.integers(0, 9), min_size=1, max_size=5)):
        rows = []
        for _ in range(size):
            now += draw(one_of_these(0, 1, 3, 10))
            number += 1
            late = draw(one_of_these(0, 0, 0, 5, 12))
            values = (draw(VALUES), draw(VALUES) / 2)
            rows.append(Row(draw(st.sampled_from("kkl")), f"n{number}", now - late, values, ingest=now, lateness=late))
        batches.append(rows)
    return batches


@given(plans(), streams())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_lines_that_are_seldom_satisfied_emit_where_the_twin_does(plan: KeySpacePlan, batches: list[list[Row]]) -> None:
    for in_order in (False, True):
        naive, state = Naive(plan), KeySpaceState(plan)
        state.in_order = in_order
        for rows in batches:
            assert in_digits(plain(state.judge(batch_of(plan, rows)))) == in_digits(naive.judge(rows)[0])


def in_digits(hits: list[Hit]) -> list[Hit]:
    """Floats to twelve digits: deviations are promised to fifteen."""
    return [dataclasses.replace(hit, value=float(f"{hit.value:.11e}")) for hit in hits]


@pytest.mark.parametrize("classes", [MASKED_CLASSES - 1, MASKED_CLASSES, MASKED_CLASSES + 1, 2 * MASKED_CLASSES + 5])
def test_more_classes_than_a_mask_has_bits(classes: int) -> None:
    """Each line judges from another instant on, some by a window of their own."""
    first = count_plan(100)
    windows = (*first.windows, WindowSpec(0, 30, False, False, True))
    groups = (*first.aggregates, AggregateSpec(1, -1, "count"))
    lines = tuple(line(n % 2, ">=", 1 + n % 3, rule_id=f"r{n}", spans=((n, 2 * n + 9),)) for n in range(classes))
    plan = dataclasses.replace(first, windows=windows, aggregates=groups, lines=lines)
    naive, state = Naive(plan), KeySpaceState(plan)
    for start in range(0, 3 * classes, 40):
        rows = [Row("ab"[i % 2], f"n{i}", i) for i in range(start, start + 40)]
        assert plain(state.judge(batch_of(plan, rows))) == naive.judge(rows)[0]


def test_a_piece_leaves_nothing_to_the_next() -> None:
    """Not its figures, and not what they have beyond 64 bits."""
    memory = KeySpaceState(count_plan(100))._memory
    columns = FigureColumns(memory, 20, 3)
    columns.clear(5)
    stride = int(memory.words[at.FIGURE_ROWS])
    assert stride >= 20
    for name in (at.FIGURE_I, at.FIGURE_UP, at.FIGURE_DEFINED):
        array = memory.array(name)
        assert int(memory.words[name]) == array.ctypes.data - 5 * array.itemsize
        array[:] = 7
    memory.words[at.N_WIDE] = 1
    figures = columns.figures(11)
    assert figures.wide
    assert figures.whole.shape == figures.up.shape == figures.real.shape == figures.defined.shape == (11, 3)
    assert figures.whole[:, 1].flags.c_contiguous
    columns.clear(16)
    figures = columns.figures(20)
    assert not figures.wide
    assert not np.any(figures.whole)
    assert not np.any(figures.up)
    assert not np.any(figures.defined)
