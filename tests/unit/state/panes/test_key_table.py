"""The table of keys: it grows by steps, keys come and go meanwhile, and a new plan takes it over."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest
import xxhash
from tests.unit.state.panes.invariants import check
from tests.unit.state.windows.naive import Row, batch_of, line, plain

from crossline.plan.spaces import AggregateSpec, PaneSpacePlan, WindowSpec, parts_of
from crossline.state.panes import layout as at
from crossline.state.panes import memory
from crossline.state.panes.store import PaneState

FOREVER_MS = 10**9


def plan_of(window_ms: int) -> PaneSpacePlan:
    groups = (AggregateSpec(0, -1, "count"),)
    parts = parts_of((0, group) for group in groups)
    cursor = WindowSpec(0, window_ms, False, False, True, 0, 10)
    return PaneSpacePlan((), 1, (cursor,), groups, (line(0, ">=", 0),), window_ms, 10, window_ms, parts)


def by_steps(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(memory, "STEPWISE_FROM_KEYS", 16)
    monkeypatch.setattr(memory, "LEAST_MOVED", least)


def grows(state: PaneState) -> bool:
    return bool(state._memory.words[at.KEY_FORMER] != state._memory.words[at.KEY_PLACES])


@pytest.mark.parametrize("seed", range(6))
def test_keys_come_and_go_while_the_table_grows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key has the count of its own records, and of no other's; idle keys are taken out of the table."""
    by_steps(monkeypatch, 1)
    lot, plan, seen, growing = random.Random(seed), plan_of(FOREVER_MS), Counter[str](), 0
    short = plan_of(30)
    state, goes = PaneState(plan, 0), PaneState(short, 0)
    for batch in range(150):
        names = [f"{lot.randrange(8 * batch + 8)}" for _ in range(lot.choice([1, 3, 12]))]
        rows = [Row(name, f"{batch}.{n}", 10 * batch, ()) for n, name in enumerate(names)]
        expected = []
        for name in names:
            seen[name] += 1
            expected.append(seen[name])
        assert [hit.count for hit in plain(state.judge(batch_of(plan, rows)))] == expected
        goes.judge(batch_of(short, rows))
        goes.evict(10 * batch - 40)
        growing += grows(state)
        if grows(state) and lot.random() < 0.3:
            state.replan(dataclasses.replace(plan, aggregates=plan.aggregates))
        check(state)
        check(goes)
    assert growing > 20
    assert state.keys == len(seen)
    assert goes.keys < len(seen) // 2


def test_searches_go_on_behind_the_last_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys whose first places are the last ones: what finds no room there stands at the beginning of the table."""
    by_steps(monkeypatch, 1)
    names = (f"{number}" for number in range(80_000))
    last = [name for name in names if xxhash.xxh64_intdigest(name.encode()) >> 56 == 0xFF]
    plan, wrapped, growing = plan_of(FOREVER_MS), 0, 0
    state = PaneState(plan, 0)
    for number, name in enumerate(last):
        state.judge(batch_of(plan, [Row(name, f"{number}", 0, ())]))
        if number % 4 == 0:
            check(state)
        growing += grows(state)
        wrapped += bool(state._memory.kept(at.KEY_TABLE)[0])
    assert growing > 20
    assert wrapped > 20
    again = [Row(name, "again", 0, ()) for name in last]
    assert [hit.count for hit in plain(state.judge(batch_of(plan, again)))] == [2] * len(last)


def test_no_batch_moves_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch takes a number of places out that follows from its keys, not from the table."""
    monkeypatch.setattr(memory, "STEPWISE_FROM_KEYS", 256)
    plan, moved, kept = plan_of(FOREVER_MS), list[int](), memory.Memory.keep
    state = PaneState(plan, 0)

    def keep(self: memory.Memory, name: int, array: object) -> None:
        if name == at.KEYS_MOVED:
            moved.append(len(array))  # type: ignore[arg-type]
        kept(self, name, array)

    for batch in range(400):
        if batch == 30:
            monkeypatch.setattr(memory.Memory, "keep", keep)
        state.judge(batch_of(plan, [Row(f"{batch}.{n}", "x", 0, ()) for n in range(10)]))
    assert state._memory.words[at.KEY_PLACES] > 16 * 256
    assert len(moved) > 50
    assert max(moved) < 300, "ten keys ask for 131 places, and those that stand right behind them"
