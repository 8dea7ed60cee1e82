"""Buckets with values are found by their bits: in order, each once, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tests.unit.state.windows.naive import line

from crossline.basics.kernels.kernel import Kernel
from crossline.plan.spaces import AggregateSpec, PaneSpacePlan, WindowSpec, parts_of
from crossline.state.memory.bounds_check import watching
from crossline.state.memory.source_digest import digest
from crossline.state.panes import layout as at
from crossline.state.panes.aggregates import bucket_counts, sketches
from crossline.state.panes.memory import Memory
from crossline.state.panes.program import compile_plan

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


def _estimate(bucket: int) -> Any:
    return sketches.value_of(bucket)


GO = Kernel(_go, lambda: digest("crossline.state.panes", "tests.unit.state.panes"))
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
