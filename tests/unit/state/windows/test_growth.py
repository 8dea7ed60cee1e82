"""Tables that grow step by step: after each step every item is found, and nothing is there that was not put in."""

from __future__ import annotations

import pytest
import xxhash

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.memory import layout as at
from crossline.state.windows import memory_map
from crossline.state.windows.store import KeySpaceState

from .invariants import check
from .naive import Naive, Row, batch_of, line, plain

CURSOR = WindowSpec(0, 10**6, False, False, True)
PLAN = KeySpacePlan(
    (("i", "int"),), 1, (CURSOR,), (AggregateSpec(0, 0, "distinct_count"),), (line(0, ">=", 3, emit_every=True),), 10**6
)
TABLES = (at.ID_TABLE, at.KEY_TABLE, at.VALUE_TABLE)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_map, "STEPWISE_FROM", 4)
    monkeypatch.setattr(memory_map, "AT_ONCE", 0)


def rows_of(start: int, count: int) -> list[Row]:
    return [Row(f"k{i * 7 % (i + 1)}", f"n{i}", i, (i % 50,)) for i in range(start, start + count)]


@pytest.mark.usefixtures("small")
def test_every_item_is_found_at_every_step() -> None:
    naive, state, growing = Naive(PLAN), KeySpaceState(PLAN), dict.fromkeys(TABLES, 0)
    for start in range(0, 1400, 7):
        rows = rows_of(start, 7)
        assert plain(state.judge(batch_of(PLAN, rows))) == naive.judge(rows)[0]
        check(state)
        again = state.judge(batch_of(PLAN, rows_of(start // 2, 3)))
        assert again.duplicates.all()
        for table in TABLES:
            growing[table] += int(state._memory.words[table + at.SPLIT_OF]) > 0
    assert all(steps > 20 for steps in growing.values()), growing


@pytest.mark.usefixtures("small")
def test_a_new_plan_and_compaction_meet_a_table_half_way() -> None:
    state, done = KeySpaceState(PLAN, 10**9), set()
    for start in range(0, 3000, 7):
        state.judge(batch_of(PLAN, rows_of(start, 7)))
        if not state._memory.words[at.ID_TABLE + at.SPLIT_OF]:
            continue
        if start % 3 == 0:
            state.replan(KeySpacePlan(PLAN.columns, 1, (CURSOR,), PLAN.aggregates, (line(0, ">=", start),), 10**6))
            done.add("replan")
        elif start % 3 == 1:
            before = state.records
            state.evict(start - before // 3)
            done.add("evict" if state.records < before else "")
        check(state)
        assert state.judge(batch_of(PLAN, rows_of(start, 7))).duplicates.all()
    assert {"replan", "evict"} <= done


@pytest.mark.usefixtures("small")
def test_more_rows_than_there_is_room_for_fill_the_table_anew() -> None:
    state, start = KeySpaceState(PLAN), 0
    while not state._memory.words[at.ID_TABLE + at.SPLIT_OF]:
        state.judge(batch_of(PLAN, rows_of(start, 3)))
        start += 3
    state.judge(batch_of(PLAN, rows_of(start, 5000)))
    assert not state._memory.words[at.ID_TABLE + at.SPLIT_OF]
    check(state)


def ids_of_one_block(count: int) -> list[str]:
    """Ids whose hashes begin with the same bits, so that all want the same block, the last of a small table."""
    found, i = [], 0
    while len(found) < count:
        if xxhash.xxh64_intdigest(f"x{i}".encode()) >> 58 == 63:
            found.append(f"x{i}")
        i += 1
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("size", "crowd"), [(1, 30), (1, 60), (2, 45), (5, 60), (9, 30)])
def test_a_crowd_at_the_end_of_the_table_is_found_at_every_step(size: int, crowd: int) -> None:
    ids = [*ids_of_one_block(crowd), *(f"y{i}" for i in range(200))]
    state = KeySpaceState(PLAN)
    for start in range(0, len(ids), size):
        rows = [Row("k", id_, start, (0,)) for id_ in ids[start : start + size]]
        assert not state.judge(batch_of(PLAN, rows)).duplicates.any()
        assert state.judge(batch_of(PLAN, rows)).duplicates.all()
        check(state)
    assert state.judge(batch_of(PLAN, [Row("k", id_, 1000, (0,)) for id_ in ids])).duplicates.all()
