"""Direct tests of the store's parts: lists, tables of ids, keys and values, compaction, and taking over."""

from __future__ import annotations

import pytest
import xxhash

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.memory import layout as at
from crossline.state.windows.store import KeySpaceState

from .invariants import Seen, check
from .naive import Row, batch_of, line

CURSORS = (WindowSpec(0, 50, False, False, True), WindowSpec(1, 20, True, True, True))
AGGREGATES = ("sum", "min", "max", "stddev", "last", "first", "distinct_count")
GROUPS = (*(AggregateSpec(c, 0, each) for c in range(2) for each in AGGREGATES), AggregateSpec(0, -1, "count"))  # type: ignore[arg-type]
LINES = tuple(line(g, ">=", 2, rule_id=f"r{g}", cooldown_ms=30 * (g % 2)) for g in range(len(GROUPS)))
PLAN = KeySpacePlan((("i", "int"),), 2, CURSORS, GROUPS, LINES, 50)


def row(number: int, clock: int, key: str = "a", value: int = 1, entries: tuple[int, ...] = (0, 1)) -> Row:
    return Row(key, f"n{number}", clock, (value,), entries, ingest=max(clock, 100))


def state_of(rows: list[Row], plan: KeySpacePlan = PLAN) -> KeySpaceState:
    state = KeySpaceState(plan, 10**9)
    state.judge(batch_of(plan, rows))
    check(state)
    return state


def listed(state: KeySpaceState, key: str = "a") -> list[str]:
    """Ids of a key's list, as its links have them."""
    seen = Seen(state)
    after, r, found = seen.of(at.RECORDS, at.AFTER), seen.of(at.SLOTS, at.HEAD)[seen.keys.index(key.encode())], []
    while r >= 0:
        found.append(seen.ids[r].decode())
        r = after[r]
    return found


def test_a_list_stands_by_clock_and_ties_by_ingest() -> None:
    state = state_of([row(1, 50), row(2, 70), row(3, 50), row(4, 10), row(5, 60, "b"), row(6, 70), row(7, 40)])
    assert listed(state) == ["n4", "n7", "n1", "n3", "n2", "n6"]
    assert listed(state, "b") == ["n5"]


def test_the_same_id_in_another_key_is_another_record() -> None:
    rows = [Row("a", "same", 1, (1,)), Row("b", "same", 2, (1,)), Row("a", "same", 3, (1,))]
    state = KeySpaceState(PLAN, 10**9)
    assert state.judge(batch_of(PLAN, rows)).duplicates.tolist() == [False, False, True]
    check(state)


@pytest.mark.parametrize("count", [11, 12, 13, 25])
def test_ids_keys_and_values_of_one_block_and_one_byte_of_hash(count: int) -> None:
    """One table of one block each: the thirteenth makes them larger."""
    texts = [text for text in (f"k{i}" for i in range(20_000)) if xxhash.xxh64_intdigest(text.encode()) & 0xFF == 7][
        :count
    ]
    state = state_of([Row(text, text, 100, (i % 9,), (0, 1)) for i, text in enumerate(texts)])
    again = state.judge(batch_of(PLAN, [Row(text, text, 100, (0,)) for text in texts]))
    assert again.duplicates.all()
    assert (state.records, state.keys) == (count, count)


def test_compaction_drops_the_old_and_gives_the_others_new_numbers() -> None:
    rows = [row(n, n, "ab"[n % 2], n % 3, ((0,), (1,), (0, 1))[n % 3]) for n in range(1, 61)]
    rows += [row(100, 45), row(101, 5), row(102, 20, "gone"), row(103, 44, "stays")]
    state = state_of(rows)
    state.evict(40)
    check(state)
    assert (state.records, state.keys) == (22, 3)
    assert set(listed(state)) == {f"n{n}" for n in range(42, 61, 2)} | {"n100"}
    assert listed(state, "stays") == ["n103"]
    assert state.judge(batch_of(PLAN, rows)).duplicates.tolist() == [each.clock > 40 for each in rows]
    check(state)


def test_compaction_waits_until_half_are_dead() -> None:
    state = state_of([row(n, n) for n in range(10)])
    state.evict(3)
    assert state.records == 10
    state.evict(4)
    assert state.records == 5
    check(state)


def test_nothing_is_left_where_all_are_dead() -> None:
    state = state_of([row(n, n) for n in range(10)])
    state.evict(100)
    check(state)
    assert (state.records, state.keys) == (0, 0)
    state.judge(batch_of(PLAN, [row(n, n) for n in range(10)]))
    check(state)
    assert (state.records, state.keys) == (10, 1)


@pytest.mark.parametrize("wide", [0, 2**40])
def test_a_new_plan_takes_records_over_and_lays_them_out_anew(wide: int) -> None:
    """Wide clocks stand behind parts that the new plan does not have."""
    state = state_of([row(n, n, "ab"[n % 2], n % 3) for n in range(30)] + [row(99, 50 + wide, "c")])
    lists = {key: listed(state, key) for key in "abc"}
    fewer = KeySpacePlan(
        PLAN.columns, 2, CURSORS[:1], (AggregateSpec(0, -1, "count"),), (line(0, ">=", 2, rule_id="x"),), 50
    )
    for plan in (fewer, PLAN, fewer):
        state.replan(plan)
        check(state)
        assert {key: listed(state, key) for key in "abc"} == lists
        assert state._memory.clocks().tolist() == [*range(30), 50 + wide]


def test_lines_that_stay_keep_what_they_know_and_others_start_with_nothing() -> None:
    state = state_of([row(n, 100 + n, value=5) for n in range(3)])
    kept, new = LINES[1], line(0, ">=", 1, rule_id="new", cooldown_ms=9)
    emitted = Seen(state).part(at.SLOTS, at.EMITTED_AT, 4, 0)
    assert emitted == [0]  # it is quiet for 30 ms after the first
    state.replan(KeySpacePlan(PLAN.columns, 2, CURSORS, GROUPS, (kept, new), 50))
    seen = Seen(state)
    assert seen.part(at.SLOTS, at.SAT_AT, 1, 0)[0] & 3 == 1
    found = [seen.part(at.SLOTS, at.EMITTED_AT, 4, column) for column in seen.program.cooldown_col.tolist()]
    assert found == [emitted, [-1]]


def test_a_minimum_leaves_and_the_next_is_found_after_late_records_took_its_place_in_the_chain() -> None:
    """Worked by hand: 5, 9 and 8 come in order, 3 late between the last two, 10 late after the first.

    When the window of the last record loses the 5, what is left of it is 10, 9, 20 and 20: its minimum is 9.
    """
    plan = KeySpacePlan(
        (("i", "int"),),
        1,
        (WindowSpec(0, 25, False, False, True),),
        (AggregateSpec(0, 0, "min"),),
        (line(0, ">=", 0, emit_every=True),),
        25,
    )
    came = [(10, 5), (30, 9), (50, 8), (40, 3), (20, 10), (32, 20), (36, 20)]
    rows = [Row("k", f"n{n}", clock, (value,), ingest=50) for n, (clock, value) in enumerate(came)]
    state = KeySpaceState(plan, 10**9)
    assert state.judge(batch_of(plan, rows)).value_i.tolist() == [5, 5, 8, 3, 5, 5, 9]
    check(state)
