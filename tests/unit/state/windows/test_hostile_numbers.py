"""Numbers at the ends of their types, in any order, cut and put away anywhere: figures are exact, and never NaN."""

from __future__ import annotations

import dataclasses
import math
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.windows.store import Delta, KeySpaceState
from drawing import one_of_these

from .naive import Hit, Naive, Row, batch_of, line, plain

COLUMNS = (("i", "int"), ("f", "float"))
GREATEST, LEAST = 1.7976931348623157e308, 5e-324
INTS = st.one_of(
    st.sampled_from([2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62), 2**53, 2**53 + 1, 0, 1, -1]),
    st.integers(-(2**63), 2**63 - 1),
)
FLOATS = st.one_of(
    st.sampled_from([1e308, -1e308, GREATEST, -GREATEST, LEAST, -LEAST, 2.2250738585072014e-308, 0.0, -0.0]),
    st.sampled_from([1.0, -1.0, 0.1, 1e16, -1e16, 1e300, -1e300, 2.0**970, -(2.0**970), 2.0**969]),
    st.floats(allow_nan=False, allow_infinity=False),
)
AGGREGATES = ("sum", "avg", "min", "max", "stddev", "first", "last")
THRESHOLDS = st.sampled_from(
    [2**63 - 1, -(2**63), 2.0**63, -(2.0**63), 2.0**64, 1e19, 1e20, -1e20, 1e40, GREATEST, -GREATEST, 0, 0.5, 1]
)
OPERATORS = st.sampled_from(["==", "!=", ">", ">=", "<", "<="])


def everything(*more: Any) -> KeySpacePlan:
    """All aggregates of both columns over three windows, each emitted at every record; and ``more`` thresholds."""
    cursors = (
        WindowSpec(0, 40, False, False, True),
        WindowSpec(0, 15, False, True, True),
        WindowSpec(0, 25, True, False, False),
    )
    groups = tuple(AggregateSpec(c, column, a) for c in range(3) for column in (0, 1) for a in AGGREGATES)  # type: ignore[arg-type]
    reported = tuple(line(g, "!=", 0.12345, rule_id=f"all{g}") for g in range(len(groups)))
    lines = tuple(line(g, op, threshold, rule_id=f"r{n}") for n, (g, op, threshold) in enumerate(more))
    return KeySpacePlan(COLUMNS, 1, cursors, groups, reported + lines, 40)  # type: ignore[arg-type]


MORE = st.lists(st.tuples(st.integers(0, 41), OPERATORS, THRESHOLDS), min_size=4, max_size=12)


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    batches, now, number = [], 0, 0
    for size in draw(st.lists(st.integers(0, 7), min_size=1, max_size=6)):
        rows = []
        for _ in range(size):
            now += draw(one_of_these(0, 1, 3, 10))
            number += 1
            late = draw(one_of_these(0, 0, 0, 5, 12))
            rows.append(Row("k", f"n{number}", now - late, (draw(INTS), draw(FLOATS)), ingest=now, lateness=late))
        batches.append(rows)
    return batches


def in_digits(hits: list[Hit], plan: KeySpacePlan) -> list[Hit]:
    """Deviations to the fifteen digits that are promised; of others, which may be -0.0 for 0, all.

    Floats below the least normal one have fewer digits: they are compared as ``tiny``.
    """
    deviations = {n for n, x in enumerate(plan.lines) if plan.aggregates[x.aggregate].aggregate == "stddev"}
    return [dataclasses.replace(hit, value=digits(hit.value) if hit.line in deviations else hit.value) for hit in hits]


def digits(value: float) -> str:
    return "tiny" if 0.0 < abs(value) < sys.float_info.min else f"{value:.15g}"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(MORE, streams(), st.lists(st.sampled_from(["", "", "restart", "replan"]), min_size=6, max_size=6))
def test_same_as_the_naive_twin(more: list[Any], batches: list[list[Row]], between: list[str]) -> None:
    plan = everything(*more)
    names = tuple((x.rule_id, x.version) for x in plan.lines)
    naive, state, deltas = Naive(plan), KeySpaceState(plan, 10**12), []
    for rows, then in zip(batches, between, strict=False):
        batch = batch_of(plan, rows)
        hits = state.judge(batch)
        assert not any(math.isnan(value) for value in hits.value_f.tolist())
        expected, _ = naive.judge(rows)
        exact = [n for n, x in enumerate(plan.lines) if plan.aggregates[x.aggregate].aggregate != "stddev"]
        found = [hit for hit in plain(hits) if hit.line in exact or plan.lines[hit.line].rule_id.startswith("all")]
        wanted = [hit for hit in expected if hit.line in exact or plan.lines[hit.line].rule_id.startswith("all")]
        assert in_digits(found, plan) == in_digits(wanted, plan)
        deltas.append(state.delta(batch, hits))
        if then == "restart":
            state = KeySpaceState(plan, 10**12)
            for delta in deltas:
                state.load(Delta.of(delta.arrays()), names)
        elif then == "replan":
            state.replan(dataclasses.replace(plan, aggregates=plan.aggregates))


def judged(aggregate: Any, column: int, values: list[Any], threshold: float = 0.12345, op: Any = "!=") -> list[Any]:
    """The value at each record whose window is all up to it, where ``aggregate`` compares so."""
    cursor = WindowSpec(0, 1000, False, False, True)
    plan = KeySpacePlan(COLUMNS, 1, (cursor,), (AggregateSpec(0, column, aggregate),), (line(0, op, threshold),), 1000)  # type: ignore[arg-type]
    rows = [Row("k", str(n), n, (value, 0.0) if column == 0 else (0, value)) for n, value in enumerate(values)]
    return [hit.value for hit in plain(KeySpaceState(plan).judge(batch_of(plan, rows)))]


def test_a_sum_of_floats_comes_back_from_beyond_the_greatest() -> None:
    """Worked by hand: each sum by itself, whatever came before it."""
    assert judged("sum", 1, [1e308, 1e308, -1e308, -1e308, 5.0]) == [1e308, math.inf, 1e308, 0.0, 5.0]
    assert judged("sum", 1, [-1e308, -1e308]) == [-1e308, -math.inf]
    assert judged("avg", 1, [1e308, 1e308, -1e308, -1e308]) == [1e308, 1e308, 1e308 / 3, 0.0]
    assert judged("stddev", 1, [1e308, 1e308, -1e308]) == [0.0, pytest.approx(1e308 * (2 / math.sqrt(3)), rel=1e-15)]
    assert judged("stddev", 1, [GREATEST, -GREATEST]) == [math.inf]


def test_what_is_left_of_great_numbers_is_kept_to_the_last_bit() -> None:
    assert judged("sum", 1, [1e308, 1e308, LEAST, -1e308, -1e308])[-1] == LEAST
    # Half way between the greatest float and infinity: the nearest is infinite, and one bit less is not.
    assert judged("sum", 1, [GREATEST, 2.0**969, 2.0**969]) == [GREATEST, GREATEST, math.inf]
    assert judged("sum", 1, [GREATEST, 2.0**970, -LEAST]) == [GREATEST, math.inf, GREATEST]


def test_an_infinite_sum_satisfies_what_it_is_beyond() -> None:
    values = [1e308, 1e308]
    assert judged("sum", 1, values, GREATEST, ">") == [math.inf]
    assert judged("sum", 1, values, 1.5e308, ">=") == [math.inf]
    assert judged("sum", 1, values, GREATEST, "<=") == [1e308]
    assert judged("sum", 1, [-1e308, -1e308], -GREATEST, "<") == [-math.inf]


def test_sums_of_integers_are_exact_beyond_64_bits() -> None:
    most, least = 2**63 - 1, -(2**63)
    assert judged("sum", 0, [most, most, most]) == [most, 2**64 - 2, 3 * most]
    assert judged("sum", 0, [least, least, most, most]) == [least, -(2**64), -(2**63) - 1, -2]
    assert judged("sum", 0, [most] * 4, 1e19, ">=") == [2**64 - 2, 3 * most, 4 * most]
    assert judged("sum", 0, [most] * 4, 2.0**64, ">=") == [3 * most, 4 * most]
    assert judged("sum", 0, [most, most, 2], 2.0**64, "==") == [2**64]
    assert judged("avg", 0, [most, most - 1]) == [float(most), (2 * most - 1) / 2]
    assert judged("stddev", 0, [most, least]) == [pytest.approx(2**64 / math.sqrt(2), rel=1e-15)]


@given(st.lists(INTS, min_size=1, max_size=12))
def test_averages_of_integers_are_rounded_once(values: list[int]) -> None:
    wanted = [Fraction(sum(values[: n + 1]), n + 1) for n in range(len(values))]
    assert judged("avg", 0, values) == [exact.numerator / exact.denominator for exact in wanted]
