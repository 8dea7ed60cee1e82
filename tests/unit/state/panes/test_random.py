"""Panes against their twin on random streams, cut, put away, taken up and swept at random."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.state.windows.naive import Row, batch_of, line, plain
from tests.unit.state.windows.test_random import FACT_KINDS, FLOATS, INTS, OPERATORS, SPANS, _kind, checked

from crossline.plan.spaces import AggregateSpec, FormulaPlan, PaneSpacePlan, WindowSpec, parts_of
from crossline.programs.program import FormulaPredicate
from crossline.programs.registry import aggregates, declared, names
from crossline.state.batch import Delta
from crossline.state.panes import hit_buffers, store
from crossline.state.panes.store import PaneState
from drawing import one_of_these

from .invariants import check
from .naive import NaivePanes

LATE_MAX = 20
COLUMNS = (("i", "int"), ("f", "float"), ("c", "code"))
# Exact to so many digits, or within the declared error.
NEARLY = [name for name, each in aggregates().items() if each.rounding]
ALWAYS = -1e308
PERHAPS_INT, PERHAPS_FLOAT = st.one_of(st.none(), INTS), st.one_of(st.none(), FLOATS)
WHENS = ["f0 >= 2", "f0 > f1", "missing(f1) or f0 + x * 2 != 3"]

THRESHOLDS = st.one_of(st.integers(-2, 5), st.sampled_from([0.5, -0.5, 1e16, 2**54 + 1, 10**30, -(10**30)]))


@st.composite
def plans(draw: Any) -> PaneSpacePlan:
    resolution = draw(one_of_these(10, 25, 40))
    cursors = draw(
        st.lists(
            st.builds(
                WindowSpec,
                st.integers(0, 1),
                st.sampled_from([10, 30, 50, 80, 150]),
                *[st.booleans()] * 3,
                st.sampled_from([0, 0, 0, 15, 40]),
                st.sampled_from([resolution, resolution, resolution, 0]),
            ),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    groups = draw(st.lists(_groups(len(cursors)), min_size=1, max_size=8, unique=True))
    counts = [AggregateSpec(c, -1, "count") for c in range(len(cursors))]
    every = tuple(dict.fromkeys([*groups, *counts]))
    lines = []
    for i in range(draw(st.integers(1, 10))):
        number = draw(st.integers(0, len(every) - 1))
        nearly = every[number].aggregate in NEARLY
        lines.append(
            line(
                number,
                ">" if nearly else draw(OPERATORS),
                ALWAYS if nearly else draw(THRESHOLDS),
                rule_id=f"r{i}",
                emit_every=draw(st.booleans()),
                cooldown_ms=draw(one_of_these(0, 0, 25, 60)),
                spans=draw(SPANS),
                judge_lateness_ms=draw(one_of_these(None, None, 5)),
            )
        )
    exact = [each for each in every if each.aggregate not in NEARLY]
    formulas = tuple(draw(_formulas(f"f{i}", every, exact)) for i in range(draw(st.integers(0, 2))))
    retention = max(each.window_ms + each.delay_ms for each in cursors) + resolution
    kept = max((each.window_ms + each.delay_ms for each in cursors if not each.resolution_ms), default=0)
    parts = parts_of((cursors[each.window].filter, each) for each in every)
    return PaneSpacePlan(
        COLUMNS, 2, tuple(cursors), every, tuple(lines), retention, resolution, retention - kept, parts, formulas
    )


@st.composite
def _formulas(draw: Any, rule_id: str, every: tuple[AggregateSpec, ...], exact: list[AggregateSpec]) -> FormulaPlan:
    read = [(name, draw(st.sampled_from(exact))) for name in ("f0", "f1")]
    kinds = {name: _kind(group) for name, group in read} | FACT_KINDS
    return FormulaPlan(
        rule_id=rule_id,
        version=1,
        filter=draw(st.integers(0, 1)),
        figures=tuple(
            (name, every.index(group), every.index(AggregateSpec(group.window, -1, "count"))) for name, group in read
        ),
        verdict=FormulaPredicate(
            ("f0", "f1"),
            checked(draw(st.sampled_from(WHENS)), kinds, "verdict"),
            checked("f0 * 2 + coalesce(f1, x)", kinds, "value"),
        ),
        rearm_ms=draw(one_of_these(10, 40, 80)),
        emit_every=draw(st.booleans()),
        cooldown_ms=draw(one_of_these(0, 0, 25)),
        spans=draw(SPANS),
        judge_lateness_ms=draw(one_of_these(None, None, 5)),
    )


@cache
def _groups(cursors: int) -> st.SearchStrategy[AggregateSpec]:
    """Of every aggregate that is defined on panes, of the columns that it takes: an integer, a float, a code."""
    cursor = st.integers(0, cursors - 1)
    return st.one_of(*(_of(name, cursor) for name in names(written_plainly=False) if declared(name).pane is not None))


def _of(name: str, cursor: st.SearchStrategy[int]) -> st.SearchStrategy[AggregateSpec]:
    aggregate = declared(name)
    column = st.integers(0, 1)
    if aggregate.of_records and not aggregate.meets:
        column = st.just(-1)
    elif aggregate.takes == "values":
        column = st.just(2)
    rank = st.just(aggregate.rank) if aggregate.parameters is None else st.sampled_from([0.01, 0.5, 0.99, 1.0])
    return st.builds(AggregateSpec, cursor, column, st.just(name), rank)


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    """Batches of rows; clocks go up with jitter, so that some come late, and ids come twice, soon or long after."""
    batches, now, number = [], 0, 0
    for size in draw(st.lists(st.integers(0, 12), min_size=1, max_size=8)):
        rows = []
        for _ in range(size):
            now += draw(one_of_these(0, 0, 1, 3, 10, 30, 400))
            late = draw(one_of_these(0, 0, 0, 0, 2, 10, LATE_MAX))
            number += draw(one_of_these(1, 1, 1, 1, 0, -3))
            rows.append(
                Row(
                    key=draw(one_of_these("a", "a", "bb", "a longer key")),
                    id=f"n{number}",
                    clock=now - late,
                    values=(draw(INTS), draw(FLOATS), draw(st.integers(0, 5))),
                    filters=draw(one_of_these((0, 1), (0, 1), (0,), (1,), ())),
                    ingest=now,
                    lateness=late,
                    facts={"x": draw(PERHAPS_INT), "y": draw(PERHAPS_FLOAT), "s": None},
                )
            )
        batches.append(rows)
    return batches


SLOW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SLOW
@given(
    plans(),
    streams(),
    st.lists(st.sampled_from(["", "evict", "evict", "restart", "restart evicting", "replan"]), min_size=8, max_size=8),
    st.sampled_from([(1, 0), (3, 2), (16_384, 4_096)]),
)
def test_same_as_the_naive_twin(
    plan: PaneSpacePlan, batches: list[list[Row]], between: list[str], rooms: tuple[int, int]
) -> None:
    """``rooms``: rows whose figures are emitted at a time, and room for hits beyond those of a row."""
    naive, state, deltas = NaivePanes(plan, duplicate_ms=LATE_MAX), PaneState(plan, LATE_MAX), []
    names = tuple((x.rule_id, x.version) for x in plan.judging)
    (store.PIECE, hit_buffers.ROOM), now = rooms, 0
    for rows, then in zip(batches, between, strict=False):
        batch = batch_of(plan, rows)
        hits = state.judge(batch)
        check(state)
        expected, duplicates = naive.judge(rows)
        same(plan, plain(hits), expected)
        assert hits.duplicates.tolist() == duplicates
        now = max([now, *(row.ingest_ms for row in rows)])
        cutoff = now - LATE_MAX - plan.retention_ms - 1
        deltas.append((state.delta(batch, hits), cutoff))
        if then.startswith("restart"):
            state = PaneState(plan, LATE_MAX)
            for delta, cut in deltas:
                state.load(Delta.of(delta.arrays()), names)
                check(state)
                if then == "restart evicting":
                    state.evict(cut)
        elif then == "replan":
            state.replan(dataclasses.replace(plan))
        elif then == "evict":
            state.evict(cutoff)
        check(state)


def same(plan: PaneSpacePlan, mine: list[Any], expected: list[Any]) -> None:
    lines = plan.lines
    loose = {i for i, x in enumerate(lines) if plan.aggregates[x.aggregate].aggregate in NEARLY}
    assert [dataclasses.replace(hit, value=0) if hit.line in loose else hit for hit in mine] == [
        dataclasses.replace(hit, value=0) if hit.line in loose else hit for hit in expected
    ]
    for hit, theirs in zip(mine, expected, strict=True):
        if hit.line in loose:
            off = declared(plan.aggregates[lines[hit.line].aggregate].aggregate).rounding
            assert hit.value == pytest.approx(theirs.value, rel=off * (1 + 1e-9), abs=2.3e-308)
