"""Looking ahead touches only records that are there."""

from __future__ import annotations

from crossline.state.memory import layout as at
from crossline.state.windows.store import KeySpaceState

from .naive import Naive, Row, batch_of, count_plan, line, plain

PLAN = count_plan(100, line(threshold=3))
FAR = 2**40  # a record number whose place is in no memory of ours


def test_what_a_batch_before_looked_at_is_forgotten() -> None:
    """Its records may be gone, and the memory with them."""
    naive, state = Naive(PLAN), KeySpaceState(PLAN)
    for batch in range(3):
        rows = [Row(f"k{i % 5}", f"n{batch}-{i}", 1_000 * batch + 7 * i) for i in range(40)]
        scouts = state._memory._kept[at.SCOUTS]
        scouts[:] = FAR
        assert plain(state.judge(batch_of(PLAN, rows))) == naive.judge(rows)[0]
        assert not (scouts == FAR).any()


def test_so_it_is_where_batches_are_loaded() -> None:
    judged, loaded = KeySpaceState(PLAN), KeySpaceState(PLAN)
    for number in range(3):
        rows = [Row(f"k{i % 5}", f"n{number}-{i}", 1_000 * number + 7 * i) for i in range(40)]
        batch = batch_of(PLAN, rows)
        delta = judged.delta(batch, judged.judge(batch))
        scouts = loaded._memory._kept[at.SCOUTS]
        scouts[:] = FAR
        loaded.load(delta, tuple((each.rule_id, each.version) for each in PLAN.lines))
        assert not (scouts == FAR).any()
    assert loaded.records == judged.records
