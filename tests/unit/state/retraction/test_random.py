"""Rows out of order, twice and taken back, cut at random: the table is what the rows make of it after each batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.state.windows.naive import Row, count_plan, line

from crossline.state.batch import Delta
from drawing import one_of_these

from .invariants import check
from .kit import placed, retraction

COUNTS = count_plan(
    20,
    line(0, ">=", 2, rule_id="each"),
    line(0, "<", 2, rule_id="few", emit_every=False),
    line(0, ">=", 2, rule_id="cools", cooldown_ms=25),
)
PLAN = replace(COUNTS, retention_ms=30)  # what a record is judged by lies no further back
LINES = tuple((line.rule_id, line.version) for line in PLAN.judging)


@st.composite
def batches(draw: Any) -> list[list[tuple[Row, bool]]]:
    """Rows and whether each takes back the one before of its key, id and clock."""
    found, now, came = [], 0, list[Row]()
    for size in draw(st.lists(st.integers(0, 6), min_size=1, max_size=6)):
        rows = []
        for _ in range(size):
            now += draw(one_of_these(0, 1, 5, 15))
            if came and draw(st.integers(0, 4)) == 0:
                back = draw(st.sampled_from(came))
                rows.append((Row(back.key, back.id, back.clock, ingest=now), draw(st.booleans())))
                continue
            late = draw(one_of_these(0, 0, 0, 2, 12, 30))
            row = Row(draw(st.sampled_from("ab")), f"n{len(came)}", now - late, ingest=now)
            came.append(row)
            rows.append((row, False))
        found.append(rows)
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches(), st.lists(st.booleans(), min_size=6, max_size=6))
def test_the_table_is_what_the_rows_make_of_it(drawn: list[list[tuple[Row, bool]]], restarts: list[bool]) -> None:
    state, deltas, standing, first = retraction(PLAN), [], list[Row](), 0
    for rows, restart in zip(drawn, restarts, strict=False):
        duplicates = []
        for row, removes in rows:
            same = [other for other in standing if (other.key, other.id) == (row.key, row.id)]
            duplicates.append(bool(same) and not removes)
            if removes:
                standing = [other for other in standing if other not in same]
            elif not same:
                standing.append(row)
        batch = placed(PLAN, [row for row, _ in rows], first, [removes for _, removes in rows])
        hits = state.judge(batch)
        assert hits.duplicates.tolist() == duplicates
        check(state, standing)
        deltas.append(state.delta(batch, hits))
        first += len(rows)
        if restart:
            state = retraction(PLAN)
            for delta in deltas:
                state.load(Delta.of(delta.arrays()), LINES)
            check(state, standing)


def test_rows_that_are_not_requested_are_dropped() -> None:
    """Once half of the rows are old; names that no row has any more go with them."""
    state = retraction(PLAN)
    rows = [Row("a", f"n{at}", 10 * at, ingest=10 * at) for at in range(6)] + [Row("b", "m", 60, ingest=60)]
    state.judge(placed(PLAN, rows[:3], 0))
    state.judge(placed(PLAN, rows[3:], 3))
    state.evict(15)
    assert state.records == 7, "two of seven are old"
    state.evict(45)
    assert [state._table.id_of(row) for row in range(state.records)] == ["n5", "m"]
    assert state._table._key_names == [b"a", b"b"]
