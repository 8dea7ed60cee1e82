"""Buckets with values are found by their bits: in order, each once, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tests.unit.state.windows.naive import Row, batch_of, line

from crossline.basics.kernels.kernel import Kernel
from crossline.plan.spaces import AggregateSpec, PaneSpacePlan, WindowSpec, parts_of
from crossline.state.memory.bounds_check import watching
from crossline.state.memory.source_digest import digest
from crossline.state.panes import layout as at
from crossline.state.panes.aggregates import bucket_counts, sketches
from crossline.state.panes.memory import Memory
from crossline.state.panes.program import compile_plan
from crossline.state.panes.store import PaneState

pytestmark = pytest.mark.xdist_group("bucket_counts")  # one process compiles
HALF = sketches.BUCKETS_HALF
BORDERS = [0, 1, 31, 32, 33, 1_023, 1_024, 1_025, 32_767, 32_768, 32_769, HALF - 32, HALF - 1]


def _go(h: int, values: Any, found: Any, rank: int) -> Any:
    """Count ``values``; the value of a rank, or where that is 0 all places and counts into ``found``."""
    for k in range(len(values)):
        bucket_counts.count_bucket(h, values[k], 1)
    if rank > 0:
        return bucket_counts.ranked(h, rank)
    n, place = 0, bucket_counts.next_bucket(h, -1)
    while place >= 0:
        found[n] = place - sketches.BUCKETS_HALF
        found[n + 1] = bucket_counts.taken_count(h, place)
        n += 2
        place = bucket_counts.next_bucket(h, place)
    return n


def _few(h: int, values: Any, rank: int) -> Any:
    for k in range(len(values)):
        bucket_counts.put_few(h, k, values[k], 1 + k % 3)
    return bucket_counts.ranked_few(h, len(values), rank)


def _estimate(bucket: int) -> Any:
    return sketches.value_of(bucket)


GO = Kernel(_go, lambda: digest("crossline.state.panes", "tests.unit.state.panes"))
FEW = Kernel(_few, lambda: digest("crossline.state.panes", "tests.unit.state.panes"))
ESTIMATE = Kernel(_estimate, lambda: digest("crossline.state.panes", "tests.unit.state.panes"))


def memory() -> Memory:
    groups = (AggregateSpec(0, 0, "quantile", 0.5),)
    cursor, parts = WindowSpec(0, 100, False, False, True, 0, 10), parts_of((0, group) for group in groups)
    plan = PaneSpacePlan((("x", "float"),), 1, (cursor,), groups, (line(0, ">", 1e9),), 110, 10, 110, parts)
    return Memory(compile_plan(plan))


def nothing_is_left(held: Memory) -> bool:
    names = (at.BUCKETS, at.BUCKET_WORDS, at.BUCKET_GROUPS, at.BUCKET_TOPS)
    return not any(held.kept(name).any() for name in names)


def counted(held: Memory, values: Iterable[int]) -> list[tuple[int, int]]:
    given = np.array(list(values), np.int64)
    found = np.zeros(2 * len(given) + 2, np.int64)
    with watching(held.pieces()):
        n = int(GO(held.words.ctypes.data, given, found, 0))
    return [(int(a), int(b)) for a, b in found[:n].reshape(-1, 2)]


def test_places_come_in_order_and_each_once() -> None:
    held, rng = memory(), np.random.default_rng(3)
    both = sorted({each for border in BORDERS for each in (border, -border)} | {-HALF})
    cases: list[list[int]] = [[], *([each] for each in both), both, list(range(-3_000, 3_000))]
    cases += [rng.choice(both, 7).tolist() for _ in range(50)]
    cases += [(rng.integers(-HALF, HALF, 200) >> rng.integers(0, 12)).tolist() for _ in range(50)]
    for values in cases:
        assert counted(held, values) == sorted(Counter(values).items())
        assert nothing_is_left(held)


def test_ranks_are_those_of_the_sorted_values() -> None:
    held, rng, none = memory(), np.random.default_rng(4), np.zeros(2, np.int64)
    for size in (1, 2, 5, 40, 600):
        values = (rng.integers(-HALF + 1, HALF, size) >> int(rng.integers(0, 9))).clip(-100_000, 100_000)
        for rank in {1, 2, size // 2 + 1, size - 1, size} & set(range(1, size + 1)):
            expected = ESTIMATE(int(sorted(values.tolist())[rank - 1]))
            with watching(held.pieces()):
                assert GO(held.words.ctypes.data, values, none, rank) == expected
            assert nothing_is_left(held)


def test_ranks_of_few_items_are_those_of_the_sorted_values() -> None:
    """Items come in any order, some of one bucket; each has from one to three values."""
    held, rng = memory(), np.random.default_rng(5)
    for size in (1, 2, 5, 31, bucket_counts.FEW_MAX):
        buckets = rng.integers(-9, 9, size) * rng.choice([1, 5_000])
        values = sorted(bucket for k, bucket in enumerate(buckets.tolist()) for _ in range(1 + k % 3))
        for rank in range(1, len(values) + 1):
            with watching(held.pieces()):
                assert FEW(held.words.ctypes.data, buckets, rank) == ESTIMATE(values[rank - 1])


@pytest.mark.parametrize("settled", [False, True])
def test_a_window_has_its_quantile_whether_its_items_are_few_or_many(settled: bool) -> None:
    """Each record has a value of its own, up to twice as many as are put in order; in one pane, or as records."""
    groups = (AggregateSpec(0, 0, "quantile", 0.5),)
    cursor, parts = WindowSpec(0, 10**6, False, False, True, 0, 10**6), parts_of((0, group) for group in groups)
    plan = PaneSpacePlan(
        (("x", "float"),), 1, (cursor,), groups, (line(0, ">", -1e9),), 2 * 10**6, 10**6, 2 * 10**6, parts
    )
    state, known, drawn = PaneState(plan, 0), list[float](), np.random.default_rng(6)
    for number in range(2 * bucket_counts.FEW_MAX):
        known.append(float(drawn.integers(-(10**6), 10**6)))
        hits = state.judge(batch_of(plan, [Row("k", f"{number}", number, (known[-1],))]))
        expected = sorted(known)[(len(known) + 1) // 2 - 1]
        assert hits.value_f.tolist() == [pytest.approx(expected, rel=0.01)]
        if settled:
            state.evict(number - plan.settled_ms)
    assert state.panes == int(settled)
