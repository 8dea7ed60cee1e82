"""What late records change of where rules hold and raise no alert: as columns what is found row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from crossline.evaluate.bounds import Bounds
from crossline.evaluate.suppression import changes
from crossline.evaluate.suppression.change_columns import SuppressionChanges
from crossline.evaluate.suppression.changes import replayed_suppressions
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import ReplayedRows
from crossline.state.retraction import replays

from .fastpath import FastPath, plans_of, stream_spec
from .naive_suppressions import naive_suppressions
from .near_thresholds import LEAST, RECORDS, RULES, hot_key, some
from .strategies import Body, Record
from .test_corrections import reevaluated
from .test_detect_equals_naive import Shape, run, shapes


def compared(found: list[Any]) -> Any:
    """Each piece is looked at by both, and what they find is noted."""

    def both(
        plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int
    ) -> Iterator[SuppressionChanges]:
        columns = list(replayed_suppressions(plan, store_plan, replayed, logs))
        mine = [each for piece in columns for each in piece]
        twin = list(naive_suppressions(plan, store_plan, replayed, logs))
        assert sorted(map(repr, mine)) == sorted(map(repr, twin))
        found.extend(mine)
        yield from columns

    return mock.patch.object(changes, "replayed_suppressions", both)


def changes_of(rules: list[Body], made: Sequence[Record], shape: Shape, least: int) -> list[Any]:
    """All changes of a run, where ``least`` late records are judged once."""
    found: list[Any] = []
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards, Bounds(decides=True))
    with compared(found), mock.patch.object(replays, "LEAST", least):
        run(path, shape, made, ["log"] * len(made))
    return found


@some
@given(st.data(), RULES, RECORDS, LEAST)
def test_changes_as_columns_are_those_row_by_row(
    data: st.DataObject, bodies: list[Body], made: list[Record], least: int
) -> None:
    rules = [reevaluated(body, number) for number, body in enumerate(bodies)]
    changes_of(rules, made, data.draw(shapes(len(made))), least)


def test_a_hot_key_near_its_threshold_changes_at_many_records() -> None:
    """Each late record moves the crossing, so records have another alert; some begin to hold, and some cease to."""
    rule, made = hot_key()
    found = changes_of([rule], made, Shape(1, [(0, 150), (150, 300)], []), 4)
    of_record = Counter(each.hit.record_id for each in found)
    assert max(of_record.values()) >= 3
    assert {each.stands for each in found} == {True, False}
    assert {each.because is None for each in found} == {True, False}
