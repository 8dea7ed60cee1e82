"""Long streams with disorder against the naive twin, with evictions and restarts in between, and large batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from crossline.plan.pattern_spaces import StepPlan
from crossline.state.batch import Delta
from crossline.state.memory import layout as at
from crossline.state.patterns.store import PatternSpaceState

from .invariants import check
from .naive import Naive, Row, batch_of, pattern, plain, plan_of

JITTER = 40
ANY = 3
LINES = (
    pattern(0, 1, 2, rule_id="plain", within=170),
    pattern(rule_id="times", steps=(StepPlan(0, 4), StepPlan(1)), within=120),
    pattern(0, 1, rule_id="strict", within=50, strict=ANY),
    pattern(0, 0, 2, rule_id="until", until=1),
    pattern(2, 2, 2, 2, rule_id="long", within=170, until=0, judge_lateness_ms=10),
)
PLAN = plan_of(*LINES, retention_ms=170)


def stream(rng: np.random.Generator, count: int) -> list[Row]:
    """Records of three keys, of which a tenth is late; a key that is gone for long has what it waits for thrown out."""
    rows, now = [], 0
    for i in range(count):
        now += int(rng.choice([0, 1, 2, 9, 200], p=[0.3, 0.4, 0.2, 0.09, 0.01]))
        late = int(rng.integers(1, JITTER)) if rng.random() < 0.1 else 0
        entries = (int(rng.integers(3)), *([ANY] if rng.random() < 0.4 else []))
        rows.append(Row("abc"[int(rng.choice(3, p=[0.7, 0.2, 0.1]))], f"n{i}", now - late, entries, now, late))
    return rows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_match_is_that_of_the_naive_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, met = stream(rng, 2500), Counter[str]()
    names = tuple((x.rule_id, x.version) for x in LINES)
    naive, state, log = Naive(PLAN), PatternSpaceState(PLAN), []
    while rows:
        size = int(rng.integers(1, 60))
        part, rows = rows[:size], rows[size:]
        batch = batch_of(PLAN, part)
        hits = state.judge(batch)
        expected, _ = naive.judge(part)
        assert plain(hits) == expected
        met.update(LINES[hit.line].rule_id for hit in expected)
        log.append(state.delta(batch, hits).arrays())
        cutoff, before = part[-1].ingest_ms - JITTER - PLAN.retention_ms - 1, state.records
        state.evict(cutoff)
        check(state)
        if state.records < before:
            met["thrown out while something waits"] += bool(state._memory.words[at.N_MATCH_STEPS])
        while log and log[0]["clock_ms"].max(initial=0) <= cutoff:
            log.pop(0)
        if rng.random() < 0.2:
            state = PatternSpaceState(PLAN)
            for arrays in log:
                state.load(Delta.of(arrays), names)
            check(state)
    assert set(met) == {*(line.rule_id for line in LINES), "thrown out while something waits"}, met
    assert min(met.values()) > 5, met


def test_room_grows_within_a_batch() -> None:
    """Each of many keys has a match under way, and then each is hit, all in one batch: rows and hits outgrow room."""
    plan = plan_of(pattern(0, 1), pattern(steps=(StepPlan(0, 2), StepPlan(1)), rule_id="twice"))
    rows = [Row(f"key {i}", f"{i} {n}", n, (0 if n < 2 else 1,)) for n in range(3) for i in range(3000)]
    found = plain(PatternSpaceState(plan).judge(batch_of(plan, rows)))
    assert Counter(hit.line for hit in found) == {0: 3000, 1: 3000}
    assert {hit.evidence for hit in found} == {
        ids for i in range(3000) for ids in ((f"{i} 1", f"{i} 2"), (f"{i} 0", f"{i} 1", f"{i} 2"))
    }


def test_what_is_replaced_and_used_up_leaves_no_memory() -> None:
    plan = plan_of(pattern(steps=(StepPlan(0, 10), StepPlan(1))))
    state = PatternSpaceState(plan, 10)
    taken = []
    for start in range(0, 3000, 100):
        rows = [Row("k", f"n{i}", i, (int(i % 50 == 49),)) for i in range(start, start + 100)]
        state.judge(batch_of(plan, rows))
        check(state)
        taken.append(int(state._memory.words[at.N_MATCH_STEPS]))
        state.evict(start - 1)
    assert max(taken) <= sum(range(11)) + 10  # one match at each place, and one that is about to come to it
    assert state.records < 1000
