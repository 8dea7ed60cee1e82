"""The kernel against the naive twin on random streams, cut into batches at random, put away and taken up at random."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.plan.spaces import AggregateSpec, FeatureQueryPlan, FormulaPlan, KeySpacePlan, WindowSpec
from crossline.programs.program import FormulaPredicate
from crossline.programs.registry import declared, names
from crossline.state.windows import store
from crossline.state.windows.store import Delta, KeySpaceState
from drawing import one_of_these

from .by_steps import by_steps
from .invariants import check as check_state
from .naive import FOREVER, Naive, Row, batch_of, feature_values, line, plain

RETENTION_MS = 120  # as long as the longest window with its delay
FACT_KINDS: dict[str, FieldKind] = {"x": "integer", "y": "number", "s": "string"}
COLUMNS = (("i", "int"), ("f", "float"), ("c", "code"))
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1.0, -1.0, 1e16, -1e16, 1e-9, 1e100, -1e100, 2.5e-300]),
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 2)),
)
INTS = st.one_of(st.integers(-3, 3), st.integers(-(2**55), 2**55))
PERHAPS_INT, PERHAPS_FLOAT = st.one_of(st.none(), INTS), st.one_of(st.none(), FLOATS)
SPANS = st.sampled_from(
    [(FOREVER,), (FOREVER,), ((40, FOREVER[1]),), ((FOREVER[0], 120),), ((40, 120),), ((FOREVER[0], 40), (80, 120))]
)
OPERATORS = st.sampled_from(["==", "!=", ">", ">=", "<", "<="])

THRESHOLDS = st.one_of(st.integers(-2, 5), st.sampled_from([0.5, 1.5, -0.5, 1e16, 2**54 + 1]))
CURSORS = st.lists(
    st.builds(
        WindowSpec,
        st.integers(0, 1),
        st.integers(1, 8).map(lambda x: x * 10),
        *[st.booleans()] * 3,
        st.sampled_from([0, 0, 0, 15, 40]),
    ),
    min_size=1,
    max_size=3,
    unique=True,
)


@st.composite
def plans(draw: Any) -> KeySpacePlan:
    cursors = draw(CURSORS)
    if draw(st.booleans()):  # windows with and without the record share their run
        cursors = list(
            dict.fromkeys(
                [*cursors, *(dataclasses.replace(each, include_current=not each.include_current) for each in cursors)]
            )
        )
    groups = draw(st.lists(_groups(len(cursors)), min_size=1, max_size=8, unique=True))
    count = draw(st.integers(1, 10))
    lines = tuple(
        line(
            draw(st.integers(0, len(groups) - 1)),
            draw(OPERATORS),
            draw(THRESHOLDS),
            rule_id=f"r{i}",
            emit_every=draw(st.booleans()),
            cooldown_ms=draw(one_of_these(0, 0, 25, 60)),
            spans=draw(SPANS),
            judge_lateness_ms=draw(one_of_these(None, None, 5)),
        )
        for i in range(count)
    )
    counts = [AggregateSpec(c, -1, "count") for c in range(len(cursors))]
    every = list(dict.fromkeys([*groups, *counts]))
    formulas = tuple(
        draw(_formulas(f"f{i}", every, [every.index(each) for each in counts])) for i in range(draw(st.integers(0, 3)))
    )
    feature_queries = tuple(draw(st.lists(_feature_queries(every, [every.index(each) for each in counts]), max_size=2)))
    return KeySpacePlan(COLUMNS, 2, tuple(cursors), tuple(every), lines, RETENTION_MS, formulas, feature_queries)


@st.composite
def _feature_queries(draw: Any, groups: list[AggregateSpec], counts: list[int]) -> FeatureQueryPlan:
    read = [(name, draw(st.integers(0, len(groups) - 1))) for name in ("f0", "f1")]
    figures = tuple((name, number, counts[groups[number].window]) for name, number in read)
    late = draw(one_of_these(None, None, 5))
    return FeatureQueryPlan("features", 1, draw(st.integers(0, 1)), figures, (), draw(SPANS), late)


WHENS = ["f0 >= 2", "f0 > f1", "f0 / f1 > 0.5 or x > 2", "missing(f1) or f0 + x * 2 != 3", 'not f0 < 1 and s == "a"']
VALUES = [None, "f0", "f0 * 2 + coalesce(f1, x)", "y"]


@st.composite
def _formulas(draw: Any, rule_id: str, groups: list[AggregateSpec], counts: list[int]) -> FormulaPlan:
    read = [(name, draw(st.integers(0, len(groups) - 1))) for name in ("f0", "f1")]
    figures = tuple((name, number, counts[groups[number].window]) for name, number in read)
    kinds = {name: _kind(groups[number]) for name, number in read} | FACT_KINDS
    when, value = draw(st.sampled_from(WHENS)), draw(st.sampled_from(VALUES))
    return FormulaPlan(
        rule_id=rule_id,
        version=1,
        filter=draw(st.integers(0, 1)),
        figures=figures,
        verdict=FormulaPredicate(
            tuple(name for name, _ in read),
            checked(when, kinds, "verdict"),
            checked(value, kinds, "value") if value else None,
        ),
        rearm_ms=draw(one_of_these(10, 40, 80)),
        emit_every=draw(st.booleans()),
        cooldown_ms=draw(one_of_these(0, 0, 25)),
        spans=draw(SPANS),
        judge_lateness_ms=draw(one_of_these(None, None, 5)),
    )


def checked(text: str, kinds: Mapping[str, FieldKind], wanted: Literal["verdict", "value"]) -> Formula:
    found = check(text, kinds, (), wanted)
    assert isinstance(found, Formula), found
    return found


def _kind(group: AggregateSpec) -> FieldKind:
    aggregate = declared(group.aggregate)
    return aggregate.kind("number" if group.column == 1 and not aggregate.of_records else "integer")


@cache
def _groups(cursors: int) -> st.SearchStrategy[AggregateSpec]:
    """Of every aggregate that is defined on windows, of the columns that it takes: an integer, a float, a code."""
    cursor = st.integers(0, cursors - 1)
    return st.one_of(*(_of(name, cursor) for name in names() if declared(name).window is not None))


def _of(name: str, cursor: st.SearchStrategy[int]) -> st.SearchStrategy[AggregateSpec]:
    aggregate = declared(name)
    column = st.integers(0, 1)
    if aggregate.of_records and not aggregate.meets:
        column = st.just(-1)
    elif aggregate.takes == "values":
        column = st.integers(0, 2)
    return st.builds(AggregateSpec, cursor, column, st.just(name), st.just(aggregate.rank))


@st.composite
def streams(draw: Any) -> list[list[Row]]:
    """Batches of rows; clocks go up with jitter, so that some come late, and ids sometimes come twice.

    An id comes again only while nothing may have forgotten it: the twin forgets nothing, an eviction does.
    """
    batches, now, number, began = [], 0, 0, 0
    for size in draw(st.lists(st.integers(0, 12), min_size=1, max_size=7)):
        rows = []
        now += draw(one_of_these(0, 0, 0, 0, 0, 0, 2**31, 2**33))  # clocks in records are 32 bits, where these do
        for _ in range(size):
            now += draw(one_of_these(0, 0, 1, 3, 10, 30))
            late = draw(one_of_these(0, 0, 0, 0, 2, 10, 20))
            if now - began > RETENTION_MS or draw(one_of_these(*[True] * 7, False)):
                number, began = number + 1, now
            rows.append(
                Row(
                    key=draw(one_of_these("a", "a", "bb")),
                    id=f"n{number}",
                    clock=now - late,
                    values=(draw(INTS), draw(FLOATS), draw(st.integers(0, 2))),
                    filters=draw(one_of_these((0, 1), (0, 1), (0,), (1,), ())),
                    ingest=now,
                    lateness=late,
                    facts={
                        "x": draw(PERHAPS_INT),
                        "y": draw(PERHAPS_FLOAT),
                        "s": draw(one_of_these(None, "a", "b")),
                    },
                )
            )
        batches.append(rows)
    return batches


LATE_MAX = 20
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SLOW
@given(
    plans(),
    streams(),
    st.lists(st.sampled_from(["", "", "evict", "restart", "replan"]), min_size=7, max_size=7),
    st.lists(st.booleans(), min_size=7, max_size=7),
    st.sampled_from([1, 3, 8_192]),
)
def test_same_as_the_naive_twin(
    plan: KeySpacePlan, batches: list[list[Row]], between: list[str], in_order: list[bool], piece: int
) -> None:
    compare(plan, batches, between, in_order, piece)


@settings(SLOW, max_examples=100)
@given(
    plans(),
    streams(),
    st.lists(st.sampled_from(["evict", "evict", "evict", "restart", "replan"]), min_size=7, max_size=7),
    st.lists(st.booleans(), min_size=7, max_size=7),
    st.sampled_from([1, 3, 100]),
)
def test_the_same_where_each_eviction_drops_a_few_records(
    plan: KeySpacePlan, batches: list[list[Row]], between: list[str], in_order: list[bool], dropped: int
) -> None:
    with by_steps(dropped):
        compare(plan, batches, between, in_order, 8_192)


def compare(plan: KeySpacePlan, batches: list[list[Row]], between: list[str], in_order: list[bool], piece: int) -> None:
    """Judge ``batches`` by the kernel and by the naive twin, with what is done ``between`` them."""
    naive, state, deltas = Naive(plan), KeySpaceState(plan, 10**12), []
    names = tuple((x.rule_id, x.version) for x in plan.judging)
    for rows, then, ordered in zip(batches, between, in_order, strict=False):
        batch = batch_of(plan, rows)
        state.in_order, store.PIECE = ordered, piece
        hits = state.judge(batch)
        expected, duplicates = naive.judge(rows)
        assert plain(hits) == expected
        assert sorted(feature_values(hits), key=lambda each: each[:3]) == sorted(
            naive.features_out, key=lambda each: each[:3]
        )
        assert not (hits.duplicates & ~np.array(duplicates, bool)).any()
        check_state(state)
        deltas.append(state.delta(batch, hits))
        if then == "restart":
            state = KeySpaceState(plan, 10**12)
            for delta in deltas:
                state.load(Delta.of(delta.arrays()), names)
        elif then == "replan":
            state.replan(dataclasses.replace(plan, aggregates=plan.aggregates))
        elif then == "evict" and rows:
            # What is behind this is in no future window, and has no duplicates to come.
            state.evict(rows[-1].ingest_ms - LATE_MAX - plan.retention_ms - 1)
        check_state(state)
