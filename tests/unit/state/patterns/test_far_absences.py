"""Absences among records far out of order, in keys with few and with many records, against what their words say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import config
from tests.unit.state.windows.by_steps import by_steps

from crossline.plan.pattern_spaces import AbsencePlan, AbsenceSpacePlan
from crossline.state.batch import Delta, DueHits
from crossline.state.memory import layout as at
from crossline.state.patterns import deadlines
from crossline.state.patterns.absence_store import AbsenceSpaceState
from crossline.state.records import lists

from .naive import FOREVER, Row, batch_of, plan_of

KEYS = ("many", "some", "few")
WITHIN_MS, GRACE_MS, RETENTION_MS = 60, 40, 60
LATE_MAX = 3000
LINES = (
    AbsencePlan("quiet", 1, 0, 1, WITHIN_MS, GRACE_MS, (FOREVER,), None),
    AbsencePlan("waits", 1, 2, 0, 20, LATE_MAX, (FOREVER,), None),
)
PLAN = AbsenceSpacePlan(4, LINES, RETENTION_MS)
MANY = settings(
    max_examples=15 if config.DISABLE_JIT else 150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Found = tuple[int, int, str]  # moment, line, id


def reached(rows: Sequence[Row]) -> dict[str, int]:
    """Where the clock stood at each record."""
    return dict(
        zip((row.id for row in rows), np.maximum.accumulate([row.ingest_ms for row in rows]).tolist(), strict=True)
    )


def in_vain(rows: Sequence[Row], passed_ms: int) -> set[Found]:
    """Each record that waits, held against all others of its key."""
    came, found = reached(rows), set()
    for number, line in enumerate(LINES):
        for p, row in enumerate(rows):
            due = row.clock + line.within_ms + line.grace_ms
            if line.after not in row.filters or due >= passed_ms:
                continue
            answered = any(
                other.key == row.key
                and line.expect in other.filters
                and (other.clock, q) > (row.clock, p)
                and other.clock <= row.clock + line.within_ms
                and came[other.id] <= due
                for q, other in enumerate(rows)
            )
            if not answered:
                found.add((max(due + 1, came[row.id]), number, row.id))
    return found


def plain(hits: DueHits | None) -> list[Found]:
    if hits is None:
        return []
    data, ends = hits.ids
    ids = [data[start:end].tobytes().decode() for start, end in pairwise(ends)]
    return list(zip(hits.moment_ms.tolist(), hits.line.tolist(), ids, strict=True))


def check(state: AbsenceSpaceState) -> None:
    """Each key's list has its records by clock, ties in the order in which they came."""
    memory = state._memory
    clocks, first = memory.clocks().tolist(), int(memory.words[at.FIRST_RECORD])
    slots, after, before = (memory.field(at.RECORDS, field).tolist() for field in (at.SLOT, at.AFTER, at.BEFORE))
    tails, heads = (memory.field(at.SLOTS, field).tolist() for field in (at.TAIL, at.HEAD))
    for slot, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        expected = sorted((clocks[r], r) for r in range(first, len(slots)) if slots[r] == slot)
        found, r = [], head
        while r >= 0:
            found.append((clocks[r], r))
            assert before[r] == (found[-2][1] if len(found) > 1 else -1)
            r = after[r]
        assert found == expected
        assert tail == (expected[-1][1] if expected else -1)


def stream(
    rng: np.random.Generator, count: int, *, late: float, far: int, jitter: int, weights: Any, pauses: float = 0
) -> list[Row]:
    rows, now = [], 10_000
    for number in range(count):
        now += int(rng.choice([0, 0, 1, 2, 15])) + (LATE_MAX if rng.random() < pauses else 0)
        lateness = int(rng.integers(0, far + 1)) if rng.random() < late else int(rng.integers(0, jitter + 1))
        entries = tuple(np.flatnonzero(rng.random(4) < (0.3, 0.1, 0.1, 0.5)).tolist())
        rows.append(
            Row(KEYS[int(rng.choice(3, p=weights))], f"n{number}", now - lateness, entries or (3,), now, lateness)
        )
    return rows


@MANY
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(0.9, 0.09, 0.01), (0.4, 0.3, 0.3), (0.02, 0.49, 0.49)]),
    st.sampled_from([0.02, 0.1, 0.5, 1.0]),
    st.sampled_from([50, 400, LATE_MAX]),
    st.sampled_from([0, 0, 5, 40]),
    st.lists(st.integers(1, 250), min_size=2, max_size=4),
    st.lists(st.sampled_from(["", "evict", "restart", "replan"]), min_size=4, max_size=4),
)
def test_same_as_their_words(
    seed: int, weights: Any, late: float, far: int, jitter: int, sizes: list[int], between: list[str]
) -> None:
    """Any cut, and what is done between, changes neither the lists nor what is found."""
    rows = stream(np.random.default_rng(seed), sum(sizes), late=late, far=far, jitter=jitter, weights=weights)
    compare(rows, sizes, between)


@MANY
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(0.9, 0.09, 0.01), (0.02, 0.49, 0.49)]),
    st.sampled_from([0.02, 0.5]),
    st.sampled_from([50, LATE_MAX]),
    st.lists(st.integers(1, 60), min_size=4, max_size=12),
    st.lists(st.sampled_from(["evict", "evict", "evict", "restart", "replan"]), min_size=12, max_size=12),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([1, 8, 50]),
)
def test_the_same_where_each_eviction_drops_a_few_records(
    seed: int, weights: Any, late: float, far: int, sizes: list[int], between: list[str], dropped: int, longest: int
) -> None:
    """Tables grow block by block meanwhile, and runs of deadlines end at ``longest``."""
    rng = np.random.default_rng(seed)
    # Keys that were silent come far behind the rest, so that most of what is held is dead at once.
    rows = stream(rng, sum(sizes), late=late, far=far, jitter=5, weights=weights, pauses=0.02)
    with by_steps(dropped), pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadlines, "TIER_MAX", longest)
        compare(rows, sizes, between)


def compare(rows: list[Row], sizes: list[int], between: list[str]) -> None:
    """Judge ``rows`` in batches of ``sizes``, with what is done ``between`` them, and compare with their words."""
    state, found, log, done = AbsenceSpaceState(PLAN, LATE_MAX), [], [], 0
    for size, then in zip(sizes, between, strict=False):
        part, done = rows[done : done + size], done + size
        batch = batch_of(plan_of(), part)
        log.append((state.delta(batch, state.judge(batch)).arrays(), part[-1].ingest_ms))
        check(state)
        found += plain(state.due(part[-1].ingest_ms))
        if then == "evict":
            state.evict(part[-1].ingest_ms - LATE_MAX - RETENTION_MS - GRACE_MS - 1)
        elif then == "restart":
            state = AbsenceSpaceState(PLAN, LATE_MAX)
            for arrays, clock_ms in log:
                state.load(Delta.of(arrays), ())
                state.due(clock_ms)
        elif then == "replan":
            state.replan(PLAN)
        check(state)
    assert len(found) == len(set(found))
    assert set(found) == in_vain(rows, rows[-1].ingest_ms)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_late_records_are_found_both_ways(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list of a key with few records, and by number in that of one with many."""
    if not config.DISABLE_JIT:
        pytest.skip("only Python shows the way: see test_builds.py")
    ways: list[str] = []
    far, by_number = lists._later, lists._later_from
    monkeypatch.setattr(lists, "_later", lambda *given: (ways.append("list"), far(*given))[1])
    monkeypatch.setattr(lists, "_later_from", lambda *given: (ways.append("number"), by_number(*given))[1])
    rows = stream(np.random.default_rng(seed), 700, late=0.1, far=LATE_MAX, jitter=0, weights=(0.9, 0.09, 0.01))
    state = AbsenceSpaceState(PLAN, LATE_MAX)
    state.judge(batch_of(plan_of(), rows))
    check(state)
    assert 5 < ways.count("number") < ways.count("list") - 5


@pytest.mark.parametrize("dropped", [1, 100])
def test_a_cooldown_outlasts_records_that_are_dropped_one_by_one(dropped: int) -> None:
    """A record each 10 ms of one of two keys; in each, the first of three is emitted, and of it nothing is kept."""
    plan = AbsenceSpacePlan(4, (AbsencePlan("rare", 1, 0, 1, 5, 0, (FOREVER,), None, cooldown_ms=60),), 65)
    with by_steps(dropped):
        state, found = AbsenceSpaceState(plan, 10), []
        for n in range(60):
            row = Row("ab"[n % 2], f"n{n}", 10 * n, (0,))
            state.judge(batch_of(plan_of(), [row]))
            found += plain(state.due(10 * n))
            state.evict(10 * n - 66)
            check(state)
        state.judge(batch_of(plan_of(), [Row("c", "last", 10_000, (0,))]))
        state.evict(10_000 - 66)
    emitted = [n for n in range(59) if n // 2 % 3 == 0]
    assert found == [(10 * n + 6, 0, f"n{n}") for n in emitted]
    assert state._emitted == {("rare", 1): {}}
    assert state.records < 40


def test_what_is_held_grows_and_shrinks_with_what_waits() -> None:
    """Records are dropped, and runs of deadlines go, once nothing of them waits."""
    plan, held = AbsenceSpacePlan(4, (AbsencePlan("quiet", 1, 0, 1, 50, 0, (FOREVER,), None),), 50), []
    with by_steps(1000), pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadlines, "TIER_MAX", 16)
        state = AbsenceSpaceState(plan, 10)
        for n in range(40):
            rows = [Row(f"k{k % 7}", f"n{n}.{k}", 10 * n + k, (0,)) for k in range(10)]
            state.judge(batch_of(plan_of(), rows))
            state.due(10 * n + 9)
            state.evict(10 * n + 9 - 51)
            held.append((state.records, len(state._deadlines)))
    assert {records for records, _ in held[10:]} == {51}
    assert max(waiting for _, waiting in held) <= 51 + 16


def test_records_from_the_future_do_not_keep_the_runs_that_they_are_in() -> None:
    """Each batch has one: of a run that it is in no more than half is left that waits for nothing."""
    plan, waiting = AbsenceSpacePlan(4, (AbsencePlan("quiet", 1, 0, 1, 50, 0, (FOREVER,), None),), 50), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadlines, "TIER_MAX", 16)
        state = AbsenceSpaceState(plan, 10)
        for n in range(60):
            rows = [Row("a", f"n{n}.{k}", 10 * n + k, (0,)) for k in range(9)]
            rows.append(Row("a", f"ahead{n}", 10**6 + n, (0,), ingest=10 * n + 9))
            state.judge(batch_of(plan_of(), rows))
            state.due(10 * n + 9)
            waiting.append(len(state._deadlines) - n)
    assert max(waiting[30:]) <= 2 * 60 + 60
    assert [each[2] for each in plain(state.due(10**6 + 250))] == [
        *(f"n{n}.{k}" for n in range(54, 60) for k in range(9) if 10 * n + k + 50 >= 10 * 59 + 9),
        *(f"ahead{n}" for n in range(60)),
    ]
