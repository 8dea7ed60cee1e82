"""Sketches through the kernel: within the declared errors, and the same for every order of records."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from tests.unit.state.windows.naive import line, strings

from crossline.plan.spaces import AggregateSpec, PaneSpacePlan, WindowSpec, parts_of
from crossline.programs.registry import declared
from crossline.state.batch import KeyedBatch
from crossline.state.memory.hashing import xxh64_many
from crossline.state.panes.aggregates import sketches
from crossline.state.panes.store import PaneState

PANE_MS, WINDOW_MS = 1_000, 100_000


def judged_last(
    values: Any, aggregate: Any, kind: Any, *, rank: float = 0.0, cuts: int = 1, evicts: bool = True
) -> Any:
    """The figure at the last of ``values``, which come one each 10 ms to one key, in so many batches."""
    group, cursor = AggregateSpec(0, 0, aggregate, rank), WindowSpec(0, WINDOW_MS, False, False, True, 0, PANE_MS)
    last = 10 * (len(values) - 1)
    plan = PaneSpacePlan(
        (("x", kind),),
        1,
        (cursor,),
        (group,),
        (line(0, ">=", -1e308, spans=((last, last + 1),)),),
        WINDOW_MS + PANE_MS,
        PANE_MS,
        WINDOW_MS + PANE_MS,
        parts_of([(0, group)]),
    )
    state, found = PaneState(plan, 0), []
    key_bytes, key_offsets = strings(["k"])
    for rows in np.array_split(np.arange(len(values)), cuts):
        id_bytes, id_offsets = strings([f"n{row}" for row in rows])
        clock = 10 * rows.astype(np.int64)
        batch = KeyedBatch(
            *(clock, clock, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int32), key_bytes, key_offsets),
            *(
                xxh64_many(key_bytes, key_offsets),
                id_bytes,
                id_offsets,
                (values[rows],),
                np.ones((len(rows), 1), np.uint8),
            ),
        )
        hits = state.judge(batch)
        found += (hits.value_i if hits.is_int.any() else hits.value_f).tolist()
        if evicts:
            state.evict(int(clock[-1]) - plan.retention_ms - 1)
    (figure,) = found
    return figure


def _error(aggregate: str) -> float:
    return declared(aggregate).sketch_error or 0.0


def test_the_errors_that_are_reported_are_those_of_the_sketches() -> None:
    assert math.isclose(_error("distinct_count"), 1.04 / math.sqrt(sketches.REGISTERS))
    assert math.isclose(_error("quantile"), 1 / (2 ** (sketches.MANTISSA_BITS + 1) + 1))


@pytest.mark.parametrize("count", [1, 5, 1_000, 1_024])
def test_few_different_values_are_counted_exactly(count: int) -> None:
    values = np.concatenate([np.arange(count, dtype=np.int64) * 977] * 3)
    assert judged_last(values, "distinct_count", "code", cuts=3) == count


@pytest.mark.parametrize("count", [1_500, 5_000, 9_000])
def test_many_different_values_are_within_the_error(count: int) -> None:
    """Of 24 seeds the errors spread as declared, and none is beyond five times that."""
    errors = []
    for seed in range(24):
        values = np.random.default_rng(seed).choice(2**62, count, replace=False).astype(np.int64)
        errors.append(judged_last(values, "distinct_count", "code", cuts=7) / count - 1)
    assert max(map(abs, errors)) < 5 * _error("distinct_count")
    spread = statistics.pstdev(errors, 0)
    assert spread < 1.6 * _error("distinct_count"), "the spread of 24 has an error of a seventh itself"


def naive_estimate(values: list[int]) -> int:
    """A HyperLogLog of codes, by the binary digits of hashes."""
    registers = [0] * 4_096
    for value in values:
        digits = f"{mixed(value):064b}"
        rest = digits[12:]
        zeros = len(rest) - len(rest.lstrip("0")) + 1
        registers[int(digits[:12], 2)] = max(registers[int(digits[:12], 2)], zeros)
    share = [registers.count(k) / 4_096 for k in range(54)]
    total = 4_096 * limit_of_tau(1 - share[53])
    for k in range(52, 0, -1):
        total = 0.5 * (total + 4_096 * share[k])
    total += 4_096 * limit_of_sigma(share[0])
    return math.floor(4_096 / (2 * math.log(2)) * (4_096 / total) + 0.5)


def mixed(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ (value >> 33)) * factor % 2**64
    return value ^ (value >> 33)


def limit_of_sigma(x: float) -> float:
    return x + sum(math.pow(x, 2**k) * 2.0 ** (k - 1) for k in range(1, 60))


def limit_of_tau(x: float) -> float:
    return (1 - x - sum((1 - math.pow(x, 2.0**-k)) ** 2 * 2.0**-k for k in range(1, 60))) / 3


@pytest.mark.parametrize("count", [1_025, 3_000, 9_000])
def test_many_different_values_are_estimated_as_by_the_binary_digits_of_their_hashes(count: int) -> None:
    values = np.random.default_rng(count).choice(2**62, count, replace=False).astype(np.int64)
    for cuts in (1, 6):
        assert judged_last(values, "distinct_count", "code", cuts=cuts) == naive_estimate(values.tolist())


@pytest.mark.parametrize("aggregate", ["distinct_count", "quantile"])
def test_no_cut_and_no_pane_changes_what_a_sketch_says(aggregate: str) -> None:
    rng = np.random.default_rng(5)
    kind, rank = ("code", 0.0) if aggregate == "distinct_count" else ("int", 0.9)
    values = rng.integers(0, 2**40, 3_000)
    whole = judged_last(values, aggregate, kind, rank=rank, evicts=False)
    for cuts in (2, 11, 40):
        assert judged_last(values, aggregate, kind, rank=rank, cuts=cuts) == whole
    shuffled = np.concatenate([rng.permutation(values[:-1]), values[-1:]])
    assert judged_last(shuffled, aggregate, kind, rank=rank, cuts=5) == whole


@pytest.mark.parametrize("rank", [0.000001, 0.25, 0.5, 0.99, 0.999999, 1.0])
@pytest.mark.parametrize("drawn", ["lognormal", "cents", "signs", "hostile"])
def test_quantiles_are_within_the_error(rank: float, drawn: str) -> None:
    rng = np.random.default_rng(11)
    given: dict[str, Any] = {
        "lognormal": rng.lognormal(3, 4, 2_000),
        "cents": rng.integers(1, 100_000, 2_000) / 100,
        "signs": rng.normal(0, 1e5, 2_000).round(1),
        "hostile": np.exp(rng.uniform(-700, 700, 2_000)) * rng.choice([-1.0, 0.0, 1.0], 2_000),
    }
    values = given[drawn]
    exact = sorted(values)[max(1, math.ceil(len(values) * round(rank * 1_000_000) / 1_000_000)) - 1]
    found = judged_last(values, "quantile", "float", rank=rank, cuts=4)
    assert found == pytest.approx(exact, rel=_error("quantile") * (1 + 1e-9), abs=0)
