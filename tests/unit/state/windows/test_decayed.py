"""Decayed sums: a worked example, and the twin's scan over random streams, cuts, restarts, new plans and late rows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.plan.spaces import AggregateSpec, FeatureQueryPlan, KeySpacePlan, WindowSpec
from crossline.state.windows.store import KeySpaceState
from drawing import one_of_these

from .invariants import check
from .naive import FOREVER, Naive, Row, batch_of, feature_values

ROW_FILTERS = 2  # 0: what is summed; 1: where it is emitted


def plan_of(window_ms: int, *half_lives_ms: int, delay_ms: int = 0, right_open: bool = False) -> KeySpacePlan:
    cursor = WindowSpec(0, window_ms, False, right_open, True, delay_ms)
    sums = [AggregateSpec(0, 0, "decayed", half_life_ms=each) for each in half_lives_ms]
    more = [AggregateSpec(0, -1, "count"), AggregateSpec(0, 0, "stddev")]
    figures = tuple((f"f{number}", number, len(sums)) for number in range(len(sums)))
    reported = FeatureQueryPlan("rows", 1, 1, (*figures, ("spread", len(sums) + 1, len(sums))), (), (FOREVER,), None)
    retention_ms = window_ms + delay_ms + 200
    return KeySpacePlan(
        (("score", "int"),), ROW_FILTERS, (cursor,), (*sums, *more), (), retention_ms, feature_queries=(reported,)
    )


def decayed_sums(state: KeySpaceState, rows: list[Row]) -> list[float]:
    return [value for _, _, name, value, _ in feature_values(state.judge(batch_of(state.plan, rows))) if name == "f0"]


def test_a_worked_example() -> None:
    state = KeySpaceState(plan_of(1000, 10))
    rows = [Row("a", "h1", 0, (80,)), Row("b", "h2", 0, (7,)), Row("a", "t1", 0, (0,), (1,))]
    assert decayed_sums(state, rows) == [80.0]
    rows = [Row("a", "t2", 10, (0,), (1,)), Row("a", "h3", 20, (50,)), Row("a", "t3", 20, (0,), (1,))]
    assert decayed_sums(state, rows) == [40.0, 70.0]
    late = Row("a", "h4", 10, (60,))
    assert decayed_sums(state, [late, Row("a", "t4", 20, (0,), (1,))]) == [100.0], "it counts at its own time"
    assert decayed_sums(state, [Row("a", "t5", 10, (0,), (1,)), Row("a", "t6", 25, (0,), (1,))]) == [
        100.0,  # 40 and 60 then
        pytest.approx(100 / math.sqrt(2), rel=1e-15),
    ]
    assert decayed_sums(state, [Row("a", "t7", 1000, (0,), (1,)), Row("a", "t8", 1020, (0,), (1,))]) == [
        pytest.approx(60 * 2.0**-99 + 50 * 2.0**-98, rel=1e-15),  # 80 has left the window
        0.0,
    ]


def test_what_is_taken_back_leaves_nothing() -> None:
    state = KeySpaceState(plan_of(20_000, 1000))
    rows = [Row("a", f"h{n}", 17 * n, (97 if n < 500 else -97,)) for n in range(500)]
    rows += [Row("a", f"c{n}", 17 * n, (-97,)) for n in range(500)]
    assert decayed_sums(state, [*rows, Row("a", "t", 17 * 500, (0,), (1,))]) == [0.0]


def test_it_stays_right_over_many_half_lives() -> None:
    """Far more than a float has powers of two for, and far more records than a window holds."""
    state = KeySpaceState(plan_of(20 * 7, 7))
    rows = [Row("a", f"h{number}", 11 * number - 5000, (1 + number % 90,)) for number in range(4000)]
    rows.append(Row("a", "t", rows[-1].clock, (0,), (1,)))
    last = rows[-1].clock
    expected = math.fsum(r.values[0] * 2.0 ** (-(last - r.clock) / 7) for r in rows[:-1] if r.clock > last - 140)
    found = []
    for start in range(0, len(rows), 613):
        found += decayed_sums(state, rows[start : start + 613])
        state.evict(rows[min(start + 612, len(rows) - 1)].clock - 400)
    assert found == [pytest.approx(expected, rel=1e-13)]


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    """Batches of rows of two keys; clocks go up with jitter, and ids sometimes come twice."""
    batches, now, number = [], draw(one_of_these(0, -50_000, 1_767_225_600_000)), 0
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        for _ in range(draw(st.integers(0, 12))):
            now += draw(one_of_these(0, 1, 3, 20, 90))
            number += draw(one_of_these(0, 1, 1, 1, 1))
            clock = now - draw(one_of_these(0, 0, 0, 5, 60, 150))
            entries = draw(one_of_these((0,), (0,), (1,), (0, 1), ()))
            rows.append(Row(draw(st.sampled_from("ab")), f"n{number}", clock, (draw(st.integers(-100, 100)),), entries))
        batches.append(rows)
    return batches


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.data(),
    streams(),
    st.sampled_from([(40, (1, 5)), (90, (7,)), (500, (10, 5000)), (80, (1,))]),
    st.sampled_from([0, 0, 30]),
    st.booleans(),
)
def test_it_is_the_twins(data: Any, batches: list[list[Row]], of: Any, delay_ms: int, right_open: bool) -> None:
    window_ms, half_lives_ms = of
    plan = plan_of(window_ms, *half_lives_ms, delay_ms=delay_ms, right_open=right_open)
    state, naive, deltas = KeySpaceState(plan), Naive(plan), []
    for rows in batches:
        batch = batch_of(plan, rows)
        hits = state.judge(batch)
        naive.judge(rows)
        expected = [each for each in naive.features_out if each[2] != "spread"]
        found = [each for each in feature_values(hits) if each[2] != "spread"]
        by_place = sorted(found, key=lambda each: (each[1], each[2]))
        assert [(*each[:3], each[4]) for each in by_place] == [(*each[:3], each[4]) for each in expected]
        for mine, theirs in zip(by_place, expected, strict=True):
            assert mine[3] == pytest.approx(theirs[3], rel=1e-12, abs=1e-12)
        deltas.append(state.delta(batch, hits))
        match data.draw(one_of_these("go on", "restart", "replan")):
            case "restart":
                state = KeySpaceState(plan)
                for delta in deltas:
                    state.load(delta, ())
            case "replan":
                state.replan(dataclasses.replace(plan, retention_ms=plan.retention_ms + 1))
        check(state)
    assert np.isfinite(sum(each[3] for each in naive.features_out if each[3] is not None))
