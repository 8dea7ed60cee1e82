"""What the panes of a key take, and what is given back; what is remembered when a plan changes; hostile clocks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.unit.state.windows.naive import Row, batch_of, line, plain, strings

from crossline.plan.spaces import AggregateSpec, PanePart, PaneSpacePlan, WindowSpec, parts_of
from crossline.state.batch import KeyedBatch
from crossline.state.memory.hashing import xxh64_many
from crossline.state.panes.store import PaneState

MINUTE_MS = 60_000
LATE_MS = 5_000
COLUMNS: Any = (("amount", "float"), ("shop", "code"))


def plan_of(groups: tuple[AggregateSpec, ...], *lines: Any, window_ms: int = 10 * MINUTE_MS) -> PaneSpacePlan:
    cursor = WindowSpec(0, window_ms, False, False, True, 0, MINUTE_MS)
    retention = window_ms + MINUTE_MS
    parts = parts_of((0, group) for group in groups)
    return PaneSpacePlan(COLUMNS, 1, (cursor,), groups, lines, retention, MINUTE_MS, retention, parts)


ALL = (
    *tuple(AggregateSpec(0, 0, name) for name in ("sum", "min", "stddev", "first")),
    AggregateSpec(0, 1, "distinct_count"),
    AggregateSpec(0, 0, "quantile", 0.5),
)


def many(start_ms: int, keys: list[str], rows: int, number: int) -> KeyedBatch:
    rng = np.random.default_rng(number)
    key_bytes, key_offsets = strings(keys)
    id_bytes, id_offsets = strings([f"{number}.{row}" for row in range(rows)])
    clock = np.sort(start_ms + rng.integers(0, MINUTE_MS, rows))
    index = (
        np.sort(rng.integers(0, len(keys), rows)).astype(np.int32)
        if rows % 2
        else np.arange(rows, dtype=np.int32) % len(keys)
    )
    values = (rng.random(rows) * 10.0 ** rng.integers(-200, 200, rows), rng.integers(0, 99, rows))
    zeros = np.zeros(rows, np.int64)
    hashes = xxh64_many(key_bytes, key_offsets)
    ones = np.ones((rows, 1), np.uint8)
    return KeyedBatch(clock, clock, zeros, index, key_bytes, key_offsets, hashes, id_bytes, id_offsets, values, ones)


def test_memory_stays_flat_while_keys_come_and_go() -> None:
    """Each minute has keys of its own beside some that stay; a window of ten minutes goes through 120."""
    plan = plan_of(ALL, *(line(number, ">", 1e300, rule_id=f"r{number}") for number in range(len(ALL))))
    state, bytes_, keys, panes = PaneState(plan, LATE_MS), [], [], []
    for minute in range(120):
        names = [f"stays {k}" for k in range(20)] + [f"{minute} goes {k}" for k in range(60)]
        state.judge(many(minute * MINUTE_MS, names, 400, minute))
        state.evict((minute + 1) * MINUTE_MS - LATE_MS - plan.retention_ms - 1)
        bytes_.append(state.bytes_in_memory())
        keys.append(state.keys)
        panes.append(state.panes)
    assert max(keys[60:]) <= 20 + 60 * 16, "eleven minutes, and what no sweep has come to"
    assert max(panes[60:]) <= 16 * 80
    assert max(bytes_[60:]) <= 1.1 * max(bytes_[30:60])


def test_a_key_of_few_panes_is_small() -> None:
    """A count of 20 panes takes some 200 bytes, not the memory of its records."""
    plan = plan_of((AggregateSpec(0, -1, "count"),), line(0, ">", 1e9), window_ms=40 * MINUTE_MS)
    state, keys = PaneState(plan, 0), [f"key {k:05}" for k in range(2_000)]
    for minute in range(20):
        for _ in range(3):
            state.judge(many(minute * MINUTE_MS, keys, 2_000, 3 * minute + _))
            state.evict((minute + 1) * MINUTE_MS - plan.retention_ms)
    for _ in range(40):
        state.evict(20 * MINUTE_MS - plan.retention_ms)
    assert (state.panes, state.records) == (40_000, 40_000)
    assert state.bytes_in_memory() / 2_000 < 700


def row(number: int, clock: int, amount: float = 1.0) -> Row:
    return Row("k", f"n{number}", clock, (amount, 1))


def test_a_plan_that_changes_keeps_panes_and_what_lines_remember() -> None:
    groups = (AggregateSpec(0, 0, "sum"), AggregateSpec(0, -1, "count"))
    old = line(0, ">=", 3, rule_id="old", emit_every=False)
    gone, new = line(1, ">=", 2, rule_id="gone"), line(1, ">=", 4, rule_id="new", cooldown_ms=1_000_000)
    state = PaneState(plan_of(groups, gone, old), LATE_MS)
    first = state.judge(batch_of(state.plan, [row(n, 100 + n) for n in range(3)]))
    assert [(hit.line, hit.row, hit.value) for hit in plain(first)] == [(0, 1, 2), (0, 2, 3), (1, 2, 3.0)]
    state.evict(200 - state.plan.settled_ms)
    assert (state.panes, state.records) == (1, 1)
    state.replan(dataclasses.replace(state.plan, lines=(new, old)))
    after = state.judge(batch_of(state.plan, [row(4, 300), row(5, 400)]))
    assert [(hit.line, hit.row, hit.value) for hit in plain(after)] == [(0, 0, 4)], "old is satisfied, new cools"


def test_another_store_is_asked_for_where_panes_lack_a_part() -> None:
    state = PaneState(plan_of((AggregateSpec(0, -1, "count"),), line()), LATE_MS)
    with pytest.raises(ValueError, match="cannot be judged"):
        state.replan(plan_of((AggregateSpec(0, 0, "sum"),), line()))
    lacking = dataclasses.replace(
        state.plan, aggregates=(AggregateSpec(0, 0, "max"),), parts=(PanePart("count", 0, -1),)
    )
    with pytest.raises(ValueError, match="make its parts by parts_of"):
        PaneState(lacking)


def test_clocks_of_any_age_and_records_behind_all_bounds() -> None:
    """From 1 to 9999, back and forth: nothing breaks, and windows are right where records are within the bounds."""
    plan = plan_of((AggregateSpec(0, -1, "count"),), line(0, ">=", 0))
    state = PaneState(plan, LATE_MS)
    clocks = [-62_135_596_800_000, 0, 1_700_000_000_000, 253_402_300_799_000, 5, -(2**55), 253_402_300_799_500]
    counts = []
    for number, clock in enumerate(clocks):
        counts += [hit.count for hit in plain(state.judge(batch_of(plan, [row(number, clock)])))]
        state.evict(clock - LATE_MS - plan.retention_ms - 1)
        state.evict(clock - plan.settled_ms)
    assert counts[:4] == [1, 1, 1, 1]
    assert counts[-1] == 2


@pytest.mark.parametrize(
    ("operator", "threshold", "value", "satisfied"),
    [
        (">=", 2**54 + 1, 2.0**54, False),
        (">", 2**54 - 1, 2.0**54, True),
        ("<=", 2**54 - 1, 2.0**54, False),
        ("==", 2**54 + 1, 2.0**54, False),
        ("!=", 2**54 + 1, 2.0**54, True),
        ("<", 10**400, 1e308, True),
        (">", -(10**400), -1e308, True),
        ("==", 0.5, 0.5, True),
        ("<", 0.5, 0.5, False),
    ],
)
def test_a_float_is_standing_against_thresholds_that_no_float_is(
    operator: Any, threshold: float, value: float, satisfied: bool
) -> None:
    state = PaneState(plan_of((AggregateSpec(0, 0, "sum"),), line(0, operator, threshold)), LATE_MS)
    assert bool(plain(state.judge(batch_of(state.plan, [row(1, 0, value)])))) is satisfied
