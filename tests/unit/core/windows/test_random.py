"""The kernel against the naive twin on random streams, cut into batches at random, put away and taken up at random."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.core.plan.spaces import Cursor, Group, KeySpacePlan
from crossline.core.windows.store import Delta, KeySpaceState

from .invariants import check
from .naive import FOREVER, Naive, Row, batch_of, line, plain

RETENTION_MS = 80  # as long as the longest window
COLUMNS = (("i", "int"), ("f", "float"), ("c", "code"))
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1.0, -1.0, 1e16, -1e16, 1e-9, 1e100, -1e100, 2.5e-300]),
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 2)),
)
INTS = st.one_of(st.integers(-3, 3), st.integers(-(2**55), 2**55))
SPANS = st.sampled_from(
    [(FOREVER,), (FOREVER,), ((40, FOREVER[1]),), ((FOREVER[0], 120),), ((40, 120),), ((FOREVER[0], 40), (80, 120))]
)
OPERATORS = st.sampled_from(["==", "!=", ">", ">=", "<", "<="])


@st.composite
def plans(draw: Any) -> KeySpacePlan:
    cursors = draw(
        st.lists(
            st.builds(Cursor, st.integers(0, 1), st.integers(1, 8).map(lambda x: x * 10), *[st.booleans()] * 3),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    groups = draw(st.lists(_groups(len(cursors)), min_size=1, max_size=8, unique=True))
    count = draw(st.integers(1, 10))
    lines = tuple(
        line(
            draw(st.integers(0, len(groups) - 1)),
            draw(OPERATORS),
            draw(st.one_of(st.integers(-2, 5), st.sampled_from([0.5, 1.5, -0.5, 1e16, 2**54 + 1]))),
            rule_id=f"r{i}",
            emit_every=draw(st.booleans()),
            cooldown_ms=draw(st.sampled_from([0, 0, 25, 60])),
            spans=draw(SPANS),
            judge_lateness_ms=draw(st.sampled_from([None, None, 5])),
        )
        for i in range(count)
    )
    return KeySpacePlan(COLUMNS, 2, tuple(cursors), tuple(groups), lines, RETENTION_MS)


def _groups(cursors: int) -> st.SearchStrategy[Group]:
    cursor = st.integers(0, cursors - 1)
    number = st.sampled_from(["sum", "avg", "min", "max", "stddev", "last", "first"])
    return st.one_of(
        st.builds(Group, cursor, st.just(-1), st.just("count")),
        st.builds(Group, cursor, st.integers(0, 2), st.just("distinct_count")),
        st.builds(Group, cursor, st.integers(0, 1), number),
    )


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    """Batches of rows; clocks go up with jitter, so that some come late, and ids sometimes come twice.

    An id comes again only while nothing may have forgotten it: the twin forgets nothing, an eviction does.
    """
    batches, now, number, began = [], 0, 0, 0
    for size in draw(st.lists(st.integers(0, 12), min_size=1, max_size=7)):
        rows = []
        now += draw(st.sampled_from([0, 0, 0, 0, 0, 0, 2**31, 2**33]))  # clocks in records are 32 bits, where these do
        for _ in range(size):
            now += draw(st.sampled_from([0, 0, 1, 3, 10, 30]))
            late = draw(st.sampled_from([0, 0, 0, 0, 2, 10, 20]))
            if now - began > RETENTION_MS or draw(st.sampled_from([True] * 7 + [False])):
                number, began = number + 1, now
            rows.append(
                Row(
                    key=draw(st.sampled_from(["a", "a", "bb"])),
                    id=f"n{number}",
                    clock=now - late,
                    values=(draw(INTS), draw(FLOATS), draw(st.integers(0, 2))),
                    entries=draw(st.sampled_from([(0, 1), (0, 1), (0,), (1,), ()])),
                    ingest=now,
                    lateness=late,
                )
            )
        batches.append(rows)
    return batches


LATE_MAX = 20
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SLOW
@given(plans(), streams(), st.lists(st.sampled_from(["", "", "evict", "restart", "replan"]), min_size=7, max_size=7))
def test_same_as_the_naive_twin(plan: KeySpacePlan, batches: list[list[Row]], between: list[str]) -> None:
    naive, state, deltas = Naive(plan), KeySpaceState(plan, 10**12), []
    names = tuple((x.rule_id, x.version) for x in plan.lines)
    for rows, then in zip(batches, between, strict=False):
        batch = batch_of(plan, rows)
        hits = state.judge(batch)
        expected, duplicates = naive.judge(rows)
        assert plain(hits) == expected
        assert not (hits.duplicates & ~np.array(duplicates, bool)).any()
        check(state)
        deltas.append(state.delta(batch, hits))
        if then == "restart":
            state = KeySpaceState(plan, 10**12)
            for delta in deltas:
                state.load(Delta.of(delta.arrays()), names)
        elif then == "replan":
            state.replan(dataclasses.replace(plan, groups=plan.groups))
        elif then == "evict" and rows:
            # What is behind this is in no future window, and has no duplicates to come.
            state.evict(rows[-1].ingest_ms - LATE_MAX - plan.retention_ms - 1)
        check(state)
