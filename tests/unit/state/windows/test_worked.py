"""Examples worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.windows.program import compile_plan
from crossline.state.windows.store import Delta, KeySpaceState

from .naive import Row, batch_of, count_plan, line, plain


def judged(plan: KeySpacePlan, *rows: Row, **options: Any) -> list[tuple[int, Any]]:
    """Row and value of every hit."""
    return [(h.row, h.value) for h in plain(KeySpaceState(plan, **options).judge(batch_of(plan, rows)))]


def at(*clocks: int, values: tuple[Any, ...] = ()) -> list[Row]:
    """Records of key k at these clocks, named after their number; ``values`` one each."""
    return [Row("k", f"n{i}", clock, (values[i],) if values else ()) for i, clock in enumerate(clocks)]


def of_column(kind: Any, aggregate: Any, window_ms: int = 10, **changes: Any) -> KeySpacePlan:
    """Every value of one aggregate of one column."""
    group, given = AggregateSpec(0, 0, aggregate), {"op": "!=", "threshold": 12345.5} | changes
    return KeySpacePlan(
        (("x", kind),), 1, (WindowSpec(0, window_ms, False, False, True),), (group,), (line(**given),), window_ms
    )


def test_twelve_clicks_give_one_hit_at_the_tenth() -> None:
    plan = count_plan(10_000, line(threshold=10, emit_every=False))
    (hit,) = plain(KeySpaceState(plan).judge(batch_of(plan, at(*[500 * i for i in range(12)]))))
    assert (hit.row, hit.value, hit.count, hit.start, hit.end) == (9, 10, 10, -5500, 4500)
    assert hit.evidence == tuple(f"n{i}" for i in range(10))


def test_evidence_is_the_latest_fifty_and_the_count_is_true() -> None:
    plan = count_plan(1000, line(threshold=60))
    (hit,) = plain(KeySpaceState(plan).judge(batch_of(plan, at(*range(60)))))
    assert (hit.count, hit.evidence) == (60, tuple(f"n{i}" for i in range(10, 60)))


@pytest.mark.parametrize(
    ("left", "right", "include", "expected"),
    [
        # Records at 0, 5, 10 and 10 again; window 10.
        (False, False, True, [1, 2, 2, 3]),
        (True, False, True, [1, 2, 3, 4]),
        (True, True, False, [0, 1, 2, 2]),
        (False, False, False, [0, 1, 1, 2]),
        (True, True, True, [1, 2, 3, 3]),
    ],
)
def test_bounds(left: bool, right: bool, include: bool, expected: list[int]) -> None:
    plan = count_plan(10, line(), left=left, right=right, include=include)
    assert [value for _, value in judged(plan, *at(0, 5, 10, 10))] == expected


def test_late_record_is_judged_at_its_own_time_and_then_counts() -> None:
    # The last but one, at 5, sees 1 and itself; 14 then sees 5, 6 and itself, and not 20.
    assert [v for _, v in judged(count_plan(10, line()), *at(1, 6, 20, 5, 14))] == [1, 2, 1, 2, 3]


def test_sums_do_not_drift() -> None:
    # 1e16 + 1.0 is not a float, and neither is 0.1 + 0.2 the float 0.3; an emptied window is exactly empty.
    plan = of_column("float", "sum")
    values = (1e16, 1.0, -1e16, 0.1, 0.2, 0.3)
    assert judged(plan, *at(0, 1, 2, 11, 12, 40, values=values)) == [
        (0, 1e16),
        (1, 1e16),
        (2, 1.0),
        (3, -1e16 + 0.1),  # 0 and 1 have left: -1e16 and 0.1 are there
        (4, 0.30000000000000004),
        (5, 0.3),
    ]


def test_sums_that_two_floats_cannot_hold() -> None:
    plan = of_column("float", "sum", window_ms=100)
    values = (1e100, 1.0, 1e-100, -1e100, 1e-100, 2.0)
    # fsum: 1e100 hides the rest until it is taken off; then 1 + 1e-100 = 1, and 3 in the end.
    assert [v for _, v in judged(plan, *at(*range(6), values=values))] == [1e100, 1e100, 1e100, 1.0, 1.0, 3.0]


def test_standard_deviation_of_numbers_far_from_zero() -> None:
    # 1e9 + (4, 7, 13, 16): mean 1e9 + 10, squares 36 + 9 + 9 + 36 = 90, by 3 is 30.
    plan = of_column("float", "stddev")
    values = tuple(1e9 + x for x in (4, 7, 13, 16))
    assert judged(plan, *at(0, 1, 2, 3, values=values))[-1] == (3, 30.0**0.5)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_standard_deviation_of_any_magnitude(scale: float) -> None:
    plan = of_column("float", "stddev")
    (_, value) = judged(plan, *at(0, 1, values=(scale, 3 * scale)))[-1]
    assert value == pytest.approx(2**0.5 * scale, rel=1e-15)


@pytest.mark.parametrize(
    ("operator", "threshold", "expected"),
    [
        (">", 1.5, [1, 2]),
        (">=", 2, [1, 2]),
        ("<", 1.5, [0]),
        ("==", 1.5, []),
        ("!=", 1.5, [0, 1, 2]),
        ("<=", 2, [0, 1]),
        (">", 2**70, []),
        ("<", 2**70, [0, 1, 2]),
    ],
)
def test_counts_against_thresholds_with_fractions(operator: Any, threshold: float, expected: list[int]) -> None:
    assert [row for row, _ in judged(count_plan(10, line(op=operator, threshold=threshold)), *at(0, 1, 2))] == expected


def test_integers_beyond_what_floats_hold() -> None:
    values = (2**62, 2**62 - 1, -(2**62))
    assert [v for _, v in judged(of_column("int", "sum"), *at(0, 1, 2, values=values))] == [2**62, 2**63 - 1, 2**62 - 1]
    assert judged(of_column("int", "max", op=">", threshold=2**53), *at(0, 1, values=(2**53, 2**53 + 1))) == [
        (1, 2**53 + 1)
    ]
    # (2**62 + 2**62 - 1) / 2 = 2**62 - 0.5, of which the nearest float is 2**62.
    assert judged(of_column("int", "avg"), *at(0, 1, values=values[:2]))[-1] == (1, 2.0**62)


def test_cooldown() -> None:
    plan = count_plan(10, line(threshold=1, cooldown_ms=4))
    assert [row for row, _ in judged(plan, *at(0, 3, 4, 7, 8))] == [0, 2, 4]


def test_same_id_is_a_duplicate_within_its_time_and_key_only() -> None:
    plan = count_plan(10, line())
    rows = [Row("k", "a", 0), Row("k", "a", 5), Row("q", "a", 6), Row("k", "a", 21), Row("k", "a", 21)]
    hits = KeySpaceState(plan, duplicate_ms=20).judge(batch_of(plan, rows))
    assert hits.duplicates.tolist() == [False, True, False, False, True]
    assert hits.retained.tolist() == [0, 2, 3]


def test_evicted_keys_and_records_are_gone_and_memory_is_given_back() -> None:
    plan = count_plan(10, line())
    state = KeySpaceState(plan)
    state.judge(batch_of(plan, [Row(f"key {i}", f"{i}", 100) for i in range(5000)]))
    full = state.sizes()
    state.evict(99)
    assert (state.records, state.keys) == (5000, 5000)
    state.evict(100)
    assert (state.records, state.keys) == (0, 0)
    assert state.bytes_in_memory() < full.bytes / 10
    hits = state.judge(batch_of(plan, [Row("key 7", "7", 105)]))
    assert (hits.value_i.tolist(), hits.duplicates.tolist()) == ([1], [False])


def test_new_rules_on_the_same_records() -> None:
    columns, cursor = (("x", "int"),), WindowSpec(0, 100, False, False, True)
    first = line(0, ">=", 2, rule_id="count", emit_every=False)
    plan = KeySpacePlan(columns, 1, (cursor,), (AggregateSpec(0, -1, "count"),), (first,), 100)
    state = KeySpaceState(plan)
    state.judge(batch_of(plan, at(0, 1, 2, values=(5, 3, 3))))
    groups = (AggregateSpec(0, 0, "min"), AggregateSpec(0, 0, "distinct_count"), AggregateSpec(0, -1, "count"))
    lines = (
        line(0, "<=", 9, rule_id="min"),
        line(1, ">=", 0, rule_id="kinds"),
        line(2, ">=", 2, rule_id="count", emit_every=False),
    )
    wider = KeySpacePlan(columns, 1, (cursor,), groups, lines, 100)
    state.replan(wider)
    found = plain(state.judge(batch_of(wider, [Row("k", "n3", 3, (7,))])))
    # The new lines see what came before them; the old one is still satisfied, so it does not cross.
    assert [(h.line, h.value) for h in found] == [(0, 3), (1, 3)]
    with pytest.raises(ValueError, match="cannot be judged by a plan of"):
        state.replan(count_plan(10, line()))


def test_a_plan_without_lines_keeps_records_and_finds_duplicates() -> None:
    plan = KeySpacePlan((), 1, (), (), (), 10)
    state = KeySpaceState(plan, duplicate_ms=10)
    assert len(state.judge(batch_of(plan, []))) == 0
    batch = batch_of(plan, at(0, 1))
    hits = state.judge(batch)
    assert (len(hits), hits.sat.shape, state.judge(batch).duplicates.tolist()) == (0, (2, 0), [True, True])
    fresh = KeySpaceState(plan, duplicate_ms=10)
    fresh.load(state.delta(batch, hits), ())
    assert fresh.judge(batch).duplicates.tolist() == [True, True]


def test_emissions_and_satisfied_thresholds_are_restored() -> None:
    plan = count_plan(100, line(threshold=2, cooldown_ms=50), line(threshold=2, rule_id="cross", emit_every=False))
    state, fresh = KeySpaceState(plan), KeySpaceState(plan)
    batch = batch_of(plan, at(0, 1))
    hits = state.judge(batch)
    assert hits.line.tolist() == [0, 1]
    delta = state.delta(batch, hits)
    # Given back under lines in another order, with one that is gone.
    swapped = Delta(delta.batch, np.array([[0], [0b110]], np.uint8), np.array([2], np.int32), np.array([1], np.int32))
    fresh.load(swapped, (("gone", 1), ("cross", 1), ("r", 1)))
    for clock, expected in ((50, []), (51, [0])):
        after = batch_of(plan, [Row("k", f"later {clock}", clock)])
        assert fresh.judge(after).line.tolist() == state.judge(after).line.tolist() == expected


def test_aggregates_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="sum is not defined on a column of kind code"):
        compile_plan(of_column("code", "sum"))
