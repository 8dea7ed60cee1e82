"""Bounds of figures and formulas: by hand, and no outcome within the bounds of its parts is ever outside them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import evaluate
from crossline.state.batch import FeatureColumn
from crossline.state.retraction.figure_bounds import Bounds, figure_bounds
from crossline.state.retraction.formula_bounds import truth_of

KINDS: dict[str, Any] = {"f": "integer", "g": "number", "x": "integer", "s": "string"}


def formula(text: str) -> Formula:
    made = check(text, KINDS, ("when",), "verdict")
    assert isinstance(made, Formula), made
    return made


def column(*values: float, counts: int = 4) -> FeatureColumn:
    size = len(values)
    return FeatureColumn(np.array(values), None, np.ones(size, np.bool_), np.full(size, counts))


@pytest.mark.parametrize(
    ("aggregate", "low", "high"),
    [
        ("count", 10, 12),
        ("distinct_count", 10, 12),
        ("max", 10, 30),
        ("min", -5, 10),
        ("sum", 0, 70),  # two of -5, two of 30
        ("avg", 5, 100 / 6),  # 4 of 10, and two of -5 or of 30
    ],
)
def test_two_more_records_by_hand(aggregate: str, low: float, high: float) -> None:
    found = figure_bounds(aggregate, column(10), np.array([2]), np.array([-5.0, 30.0, 7.0]))
    assert low - 1e-6 <= found.low[0] <= low
    assert high <= found.high[0] <= high + 1e-6
    assert found.there.tolist() == [True]


@pytest.mark.parametrize("aggregate", ["count", "distinct_count", "max", "min", "sum", "avg"])
def test_no_more_records_leave_a_figure_as_it_is(aggregate: str) -> None:
    found = figure_bounds(aggregate, column(10), np.array([0]), np.array([-5.0, 30.0]))
    assert (found.low[0], found.high[0]) == (pytest.approx(10), pytest.approx(10))


@pytest.mark.parametrize("values", [[np.inf], [np.nan], [2.0**53], [-np.inf, 1.0]])
def test_values_beyond_exact_floats_bound_nothing(values: list[float]) -> None:
    for aggregate in ("max", "min", "sum", "avg"):
        found = figure_bounds(aggregate, column(10), np.array([2]), np.array(values))
        assert (found.there[0], found.low[0], found.high[0]) == (False, -np.inf, np.inf)
    for aggregate in ("stddev", "last"):
        assert not figure_bounds(aggregate, column(10), np.array([2]), np.array([1.0])).there[0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=5),
    st.lists(st.integers(-50, 50), max_size=5),
    st.integers(0, 5),
)
def test_whatever_comes_stays_within_the_bounds(held: list[int], came: list[int], more: int) -> None:
    figures: dict[str, Any] = {"count": len, "sum": sum, "max": max, "min": min, "avg": lambda x: sum(x) / len(x)}
    figures["distinct_count"] = lambda values: len(set(values))
    for name, figure in figures.items():
        was = column(float(figure(held)), counts=len(held))
        found = figure_bounds(name, was, np.array([more]), np.array(came, np.float64))
        for size in range(min(more, len(came)) + 1):
            now = figure([*held, *came[:size]])
            assert found.low[0] <= now <= found.high[0], name


TEXTS = [
    "f >= 3",
    "f < 3 and g > x",
    "f > 3 or s == 'a'",
    "not (f * g > 2)",
    "f - g != x",
    "f / g > 1",
    "1 < f <= 5",
    "-f + x == g",
    "abs(f) > 2",
    "f in (1, 2)",
    "missing(x) or f > 2",
    "x > 1 and s != 'b'",
    "f % 2 == 0",
]


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(TEXTS),
    st.tuples(st.integers(-4, 4), st.integers(0, 3)),
    st.tuples(st.integers(-4, 4), st.integers(0, 3)),
    st.none() | st.integers(-4, 4),
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["", "f", "g", "fg"]),
)
def test_what_is_sure_holds_for_all_figures_within_their_bounds_and_what_may_not_be_for_none(
    text: str, first: tuple[int, int], second: tuple[int, int], x: int | None, s: str | None, unknown: str
) -> None:
    made, spans = formula(text), {"f": first, "g": second}
    figures = {
        name: Bounds.of(np.array([float(low)]), np.array([float(low + size)]), np.ones(1, np.bool_))
        for name, (low, size) in spans.items()
    }
    figures |= {name: Bounds.unknown(1) for name in unknown}
    facts = {"x": pa.array([x], pa.int64()), "s": pa.array([s], pa.string())}
    found = truth_of(made.root, figures, facts, 1)
    ranges = [
        [-1000, 0, 1000, None] if name in unknown else [*range(low, low + size + 1)]
        for name, (low, size) in spans.items()
    ]
    holds = {bool(evaluate(made.root, {"f": f, "g": g, "x": x, "s": s})) for f, g in product(*ranges)}
    assert not found.sure[0] or holds == {True}
    assert found.maybe[0] or holds == {False}


def test_a_figure_that_is_missing_may_be_anything() -> None:
    found = truth_of(formula("f >= 3").root, {"f": Bounds.unknown(1)}, {}, 1)
    assert (found.sure[0], found.maybe[0]) == (False, True)
