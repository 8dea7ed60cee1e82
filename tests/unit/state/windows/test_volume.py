"""Long streams with disorder, every value of every aggregate against the naive twin, with evictions in between."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.windows.store import Delta, KeySpaceState

from .by_steps import by_steps
from .naive import Naive, Row, batch_of, line, plain

COLUMNS = (("i", "int"), ("f", "float"), ("c", "code"))
JITTER = 40


def everything() -> KeySpacePlan:
    """All aggregates over windows of all bounds, each line a hit at every record it judges with a defined value."""
    bounds = product((False, True), repeat=3)
    cursors = tuple(WindowSpec(i % 2, 30 + 20 * i, *b) for i, b in enumerate(bounds))
    kinds: list[tuple[int, Any]] = [(-1, "count"), *((c, "distinct_count") for c in range(3))]
    kinds += [(c, a) for c in (0, 1) for a in ("sum", "avg", "min", "max", "stddev", "last", "first")]
    groups = tuple(AggregateSpec(c, column, a) for c in range(len(cursors)) for column, a in kinds)
    lines = tuple(line(g, "!=", 0.12345, rule_id=f"r{g}", emit_every=g % 3 != 0) for g in range(len(groups)))
    return KeySpacePlan(COLUMNS, 2, cursors, groups, lines, 170)


def stream(rng: np.random.Generator, count: int, trend: float) -> list[Row]:
    """Records of three keys in which values rise or fall with ``trend``, and a tenth is late."""
    rows, now = [], 0
    for i in range(count):
        now += int(rng.choice([0, 1, 2, 9], p=[0.3, 0.4, 0.2, 0.1]))
        late = int(rng.integers(1, JITTER)) if rng.random() < 0.1 else 0
        real = (
            round(float(rng.normal(trend * i, 3)), 2)
            if rng.random() < 0.9
            else float(rng.normal()) * 10.0 ** rng.integers(-30, 30)
        )
        entries = ((0, 1), (0,), (1,))[int(rng.choice(3, p=[0.6, 0.2, 0.2]))]
        key = "abc"[int(rng.choice(3, p=[0.7, 0.2, 0.1]))]
        values = (int(rng.normal(trend * i, 3)), real, int(rng.integers(4)))
        rows.append(Row(key, f"n{i}", now - late, values, entries, now, late))
    return rows


@pytest.mark.parametrize(("seed", "trend"), [(1, 0.0), (2, 0.5), (3, -0.5)])
def test_every_value_is_that_of_the_naive_twin(seed: int, trend: float) -> None:
    compare(seed, trend)


@pytest.mark.parametrize(("seed", "dropped"), [(4, 40), (5, 1000)])
def test_every_value_is_the_same_where_each_eviction_drops_a_few_records(seed: int, dropped: int) -> None:
    with by_steps(dropped):
        compare(seed, 0.0)


def compare(seed: int, trend: float) -> None:
    """Judge a stream by the kernel and by the naive twin."""
    rng = np.random.default_rng(seed)
    plan, rows = everything(), stream(rng, 400, trend)
    names = tuple((x.rule_id, x.version) for x in plan.lines)
    naive, state, deltas = Naive(plan), KeySpaceState(plan), []
    compared = 0
    while rows:
        size = int(rng.integers(1, 60))
        part, rows = rows[:size], rows[size:]
        batch = batch_of(plan, part)
        hits = state.judge(batch)
        expected, _ = naive.judge(part)
        assert plain(hits) == expected
        compared += len(expected)
        deltas.append(state.delta(batch, hits))
        state.evict(part[-1].ingest_ms - JITTER - plan.retention_ms - 1)
        if rng.random() < 0.2:
            state = KeySpaceState(plan)
            for delta in deltas:
                state.load(Delta.of(delta.arrays()), names)
    assert compared > 10_000
