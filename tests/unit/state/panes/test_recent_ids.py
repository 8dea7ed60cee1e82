"""Which rows are duplicates: ids with their clocks, forgotten once they are settled."""

from __future__ import annotations

import dataclasses
import random

import pytest
from tests.unit.state.windows.naive import Row, batch_of, line

from crossline.plan.spaces import AggregateSpec, PaneSpacePlan, WindowSpec, parts_of
from crossline.state.panes import layout as at
from crossline.state.panes import memory
from crossline.state.panes.store import PaneState

REACH_MS = 100
SETTLED_MS = 50


def plan_of() -> PaneSpacePlan:
    """The reach of duplicates is that of evict's settled records."""
    groups = (AggregateSpec(0, -1, "count"),)
    parts = parts_of((0, group) for group in groups)
    cursor = WindowSpec(0, 40, False, False, True, 0, 10)
    return PaneSpacePlan((), 1, (cursor,), groups, (line(0, ">", 1e9),), SETTLED_MS, 10, SETTLED_MS, parts)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("evicts", [True, False])
def test_duplicates_are_those_within_reach(seed: int, evicts: bool) -> None:
    """Ids come again soon, late and long after, under the same key and under others."""
    judge_and_compare(seed, evicts=evicts)


@pytest.mark.parametrize("seed", range(4, 8))
@pytest.mark.parametrize("evicts", [True, False])
def test_the_same_while_ids_move_to_a_new_table_block_by_block(
    seed: int, evicts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "STEPWISE_FROM", 1)
    monkeypatch.setattr(memory, "LEAST_MOVED", 1)
    monkeypatch.setattr(memory, "AT_ONCE", 0)
    assert judge_and_compare(seed, evicts=evicts) > 2


def judge_and_compare(seed: int, *, evicts: bool) -> int:
    """How many batches ended while ids were on their way to a new table; a new plan takes them over."""
    plan, lot, known, now = plan_of(), random.Random(seed), dict[tuple[str, str], list[int]](), 0
    state, moving = PaneState(plan, REACH_MS), 0
    for _ in range(60):
        rows, expected = [], []
        for _ in range(lot.choice([1, 30, 200])):
            now += lot.choice([0, 0, 1])
            key, id_ = lot.choice(["a", "b", f"k{lot.randrange(40)}"]), f"{lot.randrange(120)}"
            clock = now - lot.choice([0, 0, 5, REACH_MS])
            clocks = known.setdefault((key, id_), [])
            expected.append(any(each >= now - REACH_MS for each in clocks))
            if not expected[-1]:
                clocks.append(clock)
            rows.append(Row(key, id_, clock, (), ingest=now))
        assert state.judge(batch_of(plan, rows)).duplicates.tolist() == expected
        if evicts:
            state.evict(now - REACH_MS - 1 - SETTLED_MS)
        if state._memory.words[at.OLD_BLOCKS]:
            moving += 1
            if lot.random() < 0.3:
                state.replan(dataclasses.replace(plan, aggregates=plan.aggregates))
    return moving


def test_one_id_again_and_again() -> None:
    """What is beyond reach is taken in each time: places of one hash, some thousand of them, in the same blocks."""
    plan = plan_of()
    state, expected = PaneState(plan, REACH_MS), []
    rows = []
    for number in range(3_000):
        now = 60 * number
        expected.append(number % 2 == 1)
        rows.append(Row("a", "same", now, (), ingest=now))
    assert state.judge(batch_of(plan, rows)).duplicates.tolist() == expected
    state.evict(60 * 3_000 - REACH_MS - 1 - SETTLED_MS)
    again = [Row("a", "same", 60 * 3_000, (), ingest=60 * 3_000) for _ in range(2)]
    assert state.judge(batch_of(plan, again)).duplicates.tolist() == [False, True]


def test_a_steady_stream_takes_a_steady_table() -> None:
    """Nothing but ids grows here: one key, whose panes are few."""
    plan, bytes_ = plan_of(), []
    state = PaneState(plan, REACH_MS)
    for batch in range(120):
        rows = [Row("a", f"{batch}.{n}", 20 * batch, (), ingest=20 * batch) for n in range(100)]
        assert not state.judge(batch_of(plan, rows)).duplicates.any()
        state.evict(20 * batch - REACH_MS - 1 - SETTLED_MS)
        bytes_.append(state.bytes_in_memory())
    assert max(bytes_[30:]) <= 2 * max(bytes_[10:30])


def test_a_new_table_is_filled_from_its_beginning_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids come at random, and each page of memory that they touch first costs a millisecond: no batch touches many."""
    monkeypatch.setattr(memory, "STEPWISE_FROM", 64)
    monkeypatch.setattr(memory, "LEAST_MOVED", 1)
    monkeypatch.setattr(memory, "AT_ONCE", 0)
    plan, looked_at = plan_of(), 0
    state = PaneState(plan, REACH_MS)
    for batch in range(400):
        rows = [Row("a", f"{batch}.{n}", 0, (), ingest=0) for n in range(20)]
        again = [Row("a", f"{batch // 2}.{n}", 0, (), ingest=0) for n in range(5)]
        assert state.judge(batch_of(plan, [*rows, *again])).duplicates.tolist() == [False] * 20 + [True] * 5
        words = state._memory.words
        if words[at.OLD_BLOCKS]:
            used = state._memory.kept(at.ID_TABLE).reshape(-1, at.ID_BLOCK.bytes).any(axis=1)
            filled = int(words[at.OLD_MOVED] * words[at.ID_BLOCKS] // words[at.OLD_BLOCKS])
            # Some ids pass full blocks: behind the filled ones, and from the end of the old table to its beginning.
            ahead = used[filled + 12 :]
            assert ahead.sum() <= 30
            looked_at += len(ahead) > 200
    assert looked_at > 20
