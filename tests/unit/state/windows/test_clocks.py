"""Clocks stand in records as 32 bits from a base that moves, or whole where those held are too far apart."""

from __future__ import annotations

import dataclasses

import pytest

from crossline.state.windows.memory_map import NARROW
from crossline.state.windows.store import KeySpaceState

from .naive import Naive, Row, batch_of, count_plan, line, plain

DAY = 86_400_000
PLAN = count_plan(2 * DAY, line(threshold=2))


def rows_at(*clocks: int, start: int = 0) -> list[Row]:
    return [Row("k", f"n{start + i}", clock) for i, clock in enumerate(clocks)]


def test_the_base_moves_on_with_the_stream() -> None:
    naive, state = Naive(PLAN), KeySpaceState(PLAN)
    for day in range(0, 1000, 5):
        rows = rows_at(day * DAY, (day + 1) * DAY, (day + 4) * DAY, (day + 1) * DAY, start=day)
        hits = state.judge(batch_of(PLAN, rows))
        assert plain(hits) == naive.judge(rows)[0]
        assert set(hits.evidence_clock_ms.tolist()) <= {row.clock for row in naive.rows}
        state.evict((day - 5) * DAY)
    assert state.records < 20


@pytest.mark.parametrize("apart", [NARROW - 1, NARROW, 2**40, 2**62])
def test_records_far_apart_are_held_together(apart: int) -> None:
    first = -apart // 2
    naive, state = Naive(PLAN), KeySpaceState(PLAN)
    batches = [(first, first + DAY), (first + apart - DAY, first + apart), (first + 2, first + apart, 0, -1)]
    for number, clocks in enumerate(batches):
        rows = rows_at(*clocks, start=10 * number)
        hits = state.judge(batch_of(PLAN, rows))
        assert plain(hits) == naive.judge(rows)[0]
        assert hits.evidence_clock_ms.tolist() == [
            next(row.clock for row in naive.rows if row.id == id_) for hit in plain(hits) for id_ in hit.evidence
        ]
        state.replan(dataclasses.replace(PLAN, retention_ms=number))
    assert len(naive.rows) == state.records
    state.evict(first + apart - DAY - 1)
    rows = rows_at(first + apart + 1, start=100)
    assert plain(state.judge(batch_of(PLAN, rows))) == naive.judge(rows)[0]
    assert state.records < len(naive.rows)
