"""The kernel against the naive twin on random streams, cut into batches at random, put away and taken up at random."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.state.windows.by_steps import by_steps

from crossline.basics import wire
from crossline.plan.pattern_spaces import PatternSpacePlan, SequencePlan, StepPlan
from crossline.state.batch import Delta
from crossline.state.patterns.store import PatternSpaceState
from drawing import one_of_these

from .invariants import check
from .naive import FOREVER, Naive, Row, batch_of, pattern, plain

RETENTION_MS = 80  # as long as a match may take
LATE_MAX = 20
ROW_FILTERS = 9  # in two bytes
NAMED = (0, 1, 8)  # by patterns
SPANS = st.sampled_from(
    [(FOREVER,), (FOREVER,), ((40, FOREVER[1]),), ((FOREVER[0], 120),), ((40, 120),), ((FOREVER[0], 40), (80, 120))]
)
STEPS = st.lists(st.builds(StepPlan, st.sampled_from(NAMED), st.sampled_from([1, 1, 1, 2, 3])), min_size=1, max_size=3)
ENTRIES = st.sampled_from([(0,), (1,), (8,), (0, 2), (1, 2), (8, 2), (2,), (0, 1), (0, 8), (0, 1, 2, 8), ()])
SLOW = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def patterns(draw: Any) -> list[SequencePlan]:
    """One to four, which hold on to matches for different times."""
    return [
        pattern(
            rule_id=f"r{number}",
            steps=tuple(draw(STEPS)),
            within=draw(one_of_these(0, 5, 30, 80)),
            until=draw(one_of_these(None, None, *NAMED)),
            strict=draw(one_of_these(None, None, 2, *NAMED)),
            spans=draw(SPANS),
            judge_lateness_ms=draw(one_of_these(None, None, 5)),
            cooldown_ms=draw(one_of_these(0, 0, 10, 80)),
            probes=draw(one_of_these(False, False, False, True)),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    """Batches of rows; clocks go up with jitter, so that some come late, and ids sometimes come twice.

    An id comes again only while nothing may have forgotten it: the twin forgets nothing, an eviction does.
    """
    batches, now, number, began = [], 0, 0, 0
    for size in draw(st.lists(st.integers(0, 25), min_size=3, max_size=7)):
        rows = []
        now += draw(one_of_these(0, 0, 0, 0, 0, 0, 2**31, 2**33))  # clocks in records are 32 bits, where these do
        for _ in range(size):
            now += draw(one_of_these(0, 0, 1, 1, 2, 3, 10, 30))
            late = draw(one_of_these(0, 0, 0, 0, 2, 10, 20))
            if now - began > RETENTION_MS or draw(one_of_these(*[True] * 7, False)):
                number, began = number + 1, now
            entries = draw(ENTRIES)
            rows.append(Row(draw(one_of_these("a", "a", "a", "bb")), f"n{number}", now - late, entries, now, late))
        batches.append(rows)
    return batches


def changed(lines: Sequence[SequencePlan], spare: list[SequencePlan], how: str) -> tuple[SequencePlan, ...]:
    """Other lines than before. One that has gone does not come back: versions do not."""
    if how == "add" and spare:
        return (spare.pop(), *lines)
    return tuple(lines[1:]) if how == "drop" else tuple(reversed(lines))


@SLOW
@given(
    patterns(),
    st.integers(0, 2),
    streams(),
    st.lists(
        st.sampled_from(["", "evict", "restart", "restart", "add", "add", "drop", "turn"]), min_size=7, max_size=7
    ),
)
def test_same_as_the_naive_twin(
    lines: list[SequencePlan], first: int, batches: list[list[Row]], between: list[str]
) -> None:
    compare(lines, first, batches, between)


@settings(SLOW, max_examples=80)
@given(
    patterns(),
    st.integers(0, 2),
    streams(),
    st.lists(st.sampled_from(["evict", "evict", "evict", "restart", "add", "drop"]), min_size=7, max_size=7),
    st.sampled_from([1, 3, 100]),
)
def test_the_same_where_each_eviction_drops_a_few_records(
    lines: list[SequencePlan], first: int, batches: list[list[Row]], between: list[str], dropped: int
) -> None:
    with by_steps(dropped):
        compare(lines, first, batches, between)


def compare(lines: list[SequencePlan], first: int, batches: list[list[Row]], between: list[str]) -> None:
    """Judge ``batches`` by the kernel and by the naive twin, with what is done ``between`` them."""
    spare = lines[:first]
    plan = PatternSpacePlan(ROW_FILTERS, tuple(lines[first:]), RETENTION_MS)
    naive, state, log, cutoff = Naive(plan), PatternSpaceState(plan, 10**12), [], None
    for rows, then in zip(batches, between, strict=False):
        batch = batch_of(plan, rows)
        hits = state.judge(batch)
        expected, duplicates = naive.judge(rows)
        assert plain(hits) == expected
        assert hits.duplicates.tolist() == duplicates
        check(state)
        names = tuple((x.rule_id, x.version) for x in plan.lines)
        log.append((wire.decode(wire.encode({}, state.delta(batch, hits).arrays()), "log")[1], names))
        if then == "restart":
            while cutoff is not None and log and all(clock <= cutoff for clock in log[0][0]["clock_ms"].tolist()):
                log.pop(0)  # what is too old goes from the log too, the oldest first
            state = PatternSpaceState(plan, 10**12)
            for arrays, known in log:
                state.load(Delta.of(arrays), known)
        elif then in {"add", "drop", "turn"}:
            plan = dataclasses.replace(plan, lines=changed(plan.lines, spare, then))
            naive.replan(plan)
            state.replan(plan)
        elif then == "evict" and rows:
            # What is behind this is in no match to come, and has no duplicates to come.
            cutoff = rows[-1].ingest_ms - LATE_MAX - RETENTION_MS - 1
            state.evict(cutoff)
        check(state)
