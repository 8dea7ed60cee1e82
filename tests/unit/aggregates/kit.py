"""What a test of an aggregate needs: its values by hand, and the comparison with its twin over random streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.unit.rules.rulekit import findings_of
from tests.unit.state.panes.naive import NaivePanes
from tests.unit.state.windows.naive import Hit, Naive, Row, batch_of, line, plain
from tests.unit.state.windows.test_random import LATE_MAX

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, PaneSpacePlan, WindowSpec, parts_of
from crossline.programs.registry import declared
from crossline.state.batch import Delta
from crossline.state.panes.store import PaneState
from crossline.state.windows.store import KeySpaceState

COLUMNS: Any = (("i", "int"), ("f", "float"), ("c", "code"))
# What a record may be: the window with it and without it, with a far end that is closed, one that ends before it and
# has it all the same, and one of long ago. Of two entries, whose records are others.
WINDOWS = (
    WindowSpec(0, 30, left_closed=False, right_open=False, include_current=True),
    WindowSpec(1, 40, left_closed=True, right_open=False, include_current=False),
    WindowSpec(0, 10, left_closed=False, right_open=True, include_current=True),
    WindowSpec(1, 30, left_closed=False, right_open=False, include_current=True, delay_ms=15),
)
PANE_MS, RETENTION_MS = 10, 60
ALWAYS = -1e308
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def refused(aggregate: str, field: str, unwanted: Sequence[str] = (), **more: Any) -> list[tuple[str, str]]:
    """Where, and what, is wrong with a rule on ``aggregate`` of a field of payments."""
    body = {"rule_id": "r", "version": 1, "rule_type": "velocity", "source_topic": "payments", "window": "10m"}
    body |= {"aggregation_type": aggregate, "aggregation_field": field, "aggregation_threshold": 1}
    return findings_of({name: value for name, value in {**body, **more}.items() if name not in unwanted})


def groups_of(name: str) -> list[AggregateSpec]:
    """The aggregate of each column that it takes, over each of the windows."""
    aggregate = declared(name)
    columns = (0, 1, 2) if aggregate.takes == "values" else (0, 1)
    return [AggregateSpec(c, column, name, aggregate.rank) for c in range(len(WINDOWS)) for column in columns]


def window_plan(
    groups: Sequence[AggregateSpec], cursors: Sequence[WindowSpec] = WINDOWS, columns: Any = COLUMNS
) -> KeySpacePlan:
    """Tells each of ``groups`` at every record, by a hit."""
    lines = tuple(line(number, ">=", ALWAYS, rule_id=f"r{number}") for number in range(len(groups)))
    entries = 1 + max(each.filter for each in cursors)
    return KeySpacePlan(columns, entries, tuple(cursors), tuple(groups), lines, RETENTION_MS)


def pane_plan(
    groups: Sequence[AggregateSpec], cursors: Sequence[WindowSpec] = WINDOWS, columns: Any = COLUMNS
) -> PaneSpacePlan:
    """The same of panes."""
    rounded = tuple(dataclasses.replace(each, resolution_ms=PANE_MS) for each in cursors)
    plan = window_plan(groups, rounded, columns)
    kept_ms = RETENTION_MS + PANE_MS
    return PaneSpacePlan(
        *(plan.columns, plan.filters, rounded, plan.aggregates, plan.lines, kept_ms, PANE_MS, kept_ms),
        parts_of((rounded[each.window].filter, each) for each in groups),
    )


def by_hand(name: str, kind: str, *records: tuple[int, Any], panes: bool = False, window_ms: int = 30) -> list[Any]:
    """The figure at each of ``records`` (clock, value) of one key, of a window that includes it."""
    cursor = WindowSpec(0, window_ms, left_closed=False, right_open=False, include_current=True)
    group = AggregateSpec(0, 0, name, declared(name).rank)
    rows = [Row("k", f"n{number}", clock, (value,)) for number, (clock, value) in enumerate(records)]
    columns = (("x", kind),)
    if panes:
        pane_state = PaneState(pane_plan([group], [cursor], columns), 0)
        return [hit.value for hit in plain(pane_state.judge(batch_of(pane_state.plan, rows)))]
    state = KeySpaceState(window_plan([group], [cursor], columns))
    return [hit.value for hit in plain(state.judge(batch_of(state.plan, rows)))]


def same_in_windows(name: str, batches: list[list[Row]], between: list[str]) -> None:
    """Kernel and twin agree at every record, whatever comes late, and whatever is done ``between`` batches."""
    plan = window_plan(groups_of(name))
    naive, state, deltas = Naive(plan), KeySpaceState(plan, 10**12), []
    names = tuple((each.rule_id, each.version) for each in plan.judging)
    for number, (rows, then) in enumerate(zip(batches, between, strict=False)):
        batch = batch_of(plan, rows)
        state.in_order = number % 2 == 0
        hits = state.judge(batch)
        assert plain(hits) == naive.judge(rows)[0]
        deltas.append(state.delta(batch, hits))
        if then == "restart":
            state = KeySpaceState(plan, 10**12)
            for delta in deltas:
                state.load(Delta.of(delta.arrays()), names)
        elif then == "evict" and rows:
            state.evict(rows[-1].ingest_ms - LATE_MAX - plan.retention_ms - 1)


def same_in_panes(name: str, batches: list[list[Row]], between: list[str], *, rel: float = 0.0) -> None:
    """The same of panes; ``rel``: how far off they may be, as a part of the value."""
    plan = pane_plan(groups_of(name))
    naive, state, deltas, now = NaivePanes(plan, duplicate_ms=LATE_MAX), PaneState(plan, LATE_MAX), [], 0
    names = tuple((each.rule_id, each.version) for each in plan.judging)
    for rows, then in zip(batches, between, strict=False):
        batch = batch_of(plan, rows)
        hits = state.judge(batch)
        _same(plain(hits), naive.judge(rows)[0], rel)
        now = max([now, *(row.ingest_ms for row in rows)])
        cutoff = now - LATE_MAX - plan.retention_ms - 1
        deltas.append((state.delta(batch, hits), cutoff))
        if then == "restart":
            state = PaneState(plan, LATE_MAX)
            for delta, cut in deltas:
                state.load(Delta.of(delta.arrays()), names)
                state.evict(cut)
        elif then == "evict":
            state.evict(cutoff)


def _same(found: list[Hit], expected: list[Hit], rel: float) -> None:
    if not rel:
        assert found == expected
        return
    apart = [[dataclasses.replace(hit, value=0) for hit in hits] for hits in (found, expected)]
    assert apart[0] == apart[1]
    assert [hit.value for hit in found] == pytest.approx([hit.value for hit in expected], rel=rel, abs=2.3e-308)
