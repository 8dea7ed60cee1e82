"""Records dropped one by one: what is held after each eviction, worked by hand, and what the memory is then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.memory import layout as at
from crossline.state.memory.regions import MAPPED_FROM
from crossline.state.windows import record_store
from crossline.state.windows.store import KeySpaceState

from .by_steps import by_steps
from .invariants import Seen, check
from .naive import Naive, Row, batch_of, line, plain

CURSOR = WindowSpec(0, 50, False, False, True)
AGGREGATES = ("sum", "min", "max", "distinct_count", "last")
GROUPS = (*(AggregateSpec(0, 0, each) for each in AGGREGATES), AggregateSpec(0, -1, "count"))  # type: ignore[arg-type]
LINES = tuple(line(g, ">=", -(10**6), rule_id=f"r{g}", emit_every=True) for g in range(len(GROUPS)))
PLAN = KeySpacePlan((("i", "int"),), 1, (CURSOR,), GROUPS, LINES, 50)


@pytest.fixture
def two_at_a_time() -> Iterator[None]:
    with by_steps(2):
        yield


def row(number: int, clock: int, key: str = "a", value: int = 1) -> Row:
    return Row(key, f"n{number}", clock, (value,), (0,), ingest=max(clock, 100))


def state_of(rows: list[Row]) -> KeySpaceState:
    state = KeySpaceState(PLAN, 10**9)
    state.judge(batch_of(PLAN, rows))
    check(state)
    return state


def held(state: KeySpaceState) -> list[str]:
    """Ids of the records held, in ingest order."""
    seen = Seen(state)
    return [seen.ids[r].decode() for r in seen.held]


@pytest.mark.usefixtures("two_at_a_time")
def test_an_eviction_drops_the_two_oldest_and_later_ones_the_next() -> None:
    state = state_of([row(n, n, value=n % 3) for n in range(10)])
    for left in (8, 6, 5, 5):
        state.evict(4)
        check(state)
        assert state.records == left
    assert held(state) == ["n5", "n6", "n7", "n8", "n9"]
    rows = [row(n, n) for n in range(10)]
    assert state.judge(batch_of(PLAN, rows)).duplicates.tolist() == [n > 4 for n in range(10)]
    check(state)


@pytest.mark.usefixtures("two_at_a_time")
def test_what_came_later_with_an_earlier_clock_goes_before_it() -> None:
    """n0 stands third in its list: n3 and n4 go with it, and their numbers are skipped afterwards."""
    rows = [row(0, 30), row(1, 60), row(2, 31, "b"), row(3, 10), row(4, 20), row(5, 70), row(6, 35)]
    state = state_of(rows + [row(n, 70 + n) for n in range(7, 13)])
    state.evict(40)
    check(state)
    assert held(state) == ["n1", "n2", "n5", "n6", *(f"n{n}" for n in range(7, 13))]
    for _ in range(4):
        state.evict(60)
        check(state)
    assert held(state) == ["n5", *(f"n{n}" for n in range(7, 13))]


@pytest.mark.usefixtures("two_at_a_time")
def test_a_key_without_records_is_known_again_and_counts_as_none_meanwhile() -> None:
    rows = [row(0, 1, "gone"), *(row(n, n, "ab"[n % 2]) for n in range(10, 30))]
    state = state_of(rows)
    state.evict(5)
    check(state)
    assert (state.keys, int(state._memory.words[at.N_SLOTS])) == (2, 3)
    state.judge(batch_of(PLAN, [row(50, 40, "gone"), row(51, 41, "new")]))
    check(state)
    assert (state.keys, int(state._memory.words[at.N_SLOTS])) == (4, 4)


@pytest.mark.usefixtures("two_at_a_time")
def test_keys_that_do_not_come_back_are_compacted_once_they_are_half_of_all() -> None:
    state = state_of([row(n, n, f"k{n}") for n in range(20)])
    for _ in range(10):
        state.evict(9)
        check(state)
    assert (state.records, state.keys, int(state._memory.words[at.N_SLOTS])) == (10, 10, 10)
    assert state._memory.words[at.FIRST_RECORD] == 0


@pytest.mark.usefixtures("two_at_a_time")
def test_a_record_from_the_future_does_not_keep_the_dead_for_ever() -> None:
    state = state_of([row(0, 10**6), *(row(n, n) for n in range(1, 80))])
    state.evict(70)
    check(state)
    assert held(state) == ["n0", *(f"n{n}" for n in range(71, 80))]


@pytest.mark.usefixtures("two_at_a_time")
def test_records_get_new_numbers_once_these_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_store, "NUMBERS", 200)
    naive, state, began_anew = Naive(PLAN), KeySpaceState(PLAN, 10**9), 0
    for n in range(0, 1000, 4):
        rows = [row(k, k, "ab"[k % 2], k % 5) for k in range(n, n + 4)]
        before = int(state._memory.words[at.FIRST_RECORD])
        hits = state.judge(batch_of(PLAN, rows))
        began_anew += int(state._memory.words[at.FIRST_RECORD]) < before
        assert plain(hits) == naive.judge(rows)[0]
        check(state)
        for _ in range(3):
            state.evict(n - 60)
            check(state)
    assert began_anew > 5
    assert state.records < 80


def test_the_memory_of_dropped_records_is_given_back_and_answers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two hundred thousand records take more than 10 MiB; a quarter of them is held at most, and some more."""
    monkeypatch.setattr(record_store, "SINGLY_FROM", 1)
    state, most, size = KeySpaceState(PLAN, 10**9), 0, 10_000
    for n in range(0, 20 * size, size):
        rows = batch_of(PLAN, [row(k, k // 1000, f"k{k % 97}", k % 7) for k in range(n, n + size)])
        assert not state.judge(rows).duplicates.any()
        state.evict(n // 1000 - 50)
        most = max(most, state.records)
    assert most < 80_000
    assert state._memory._regions[at.RECORDS].dropped > MAPPED_FROM
    assert state.bytes_in_memory() < 200 * most
    assert state.judge(rows).duplicates.all()
    state.replan(PLAN)
    assert state._memory.words[at.FIRST_RECORD] == 0
    assert state.judge(rows).duplicates.all()
