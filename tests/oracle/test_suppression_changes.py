"""What late records change of where rules hold and raise no alert: as columns what is found row by row."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate import shard as shards_of
from crossline.evaluate.shard import Bounds
from crossline.evaluate.suppression.change_columns import SuppressionChanges
from crossline.evaluate.suppression.changes import replayed_suppressions
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import ReplayedRows
from crossline.state.retraction import replays

from .fastpath import FastPath, plans_of, stream_spec
from .naive_suppressions import naive_suppressions
from .strategies import START_MS, STREAM, Body, Record
from .test_constant_verdicts import near, storms
from .test_corrections import BUSY, WITHIN, disordered, reevaluated
from .test_corrections_keys import BUSY as OF_KEYS
from .test_detect_equals_naive import DEEP, Shape, many, run, shapes

some = settings(many, max_examples=2000 if DEEP else 12)


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

    return mock.patch.object(shards_of, "replayed_suppressions", both)


def changes_of(rules: list[Body], made: Sequence[Record], shape: Shape, least: int) -> list[Any]:
    """All changes of a run, where ``least`` late records are judged once."""
    found: list[Any] = []
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards, Bounds(decides=True))
    with compared(found), mock.patch.object(replays, "LEAST", least):
        run(path, shape, made, ["log"] * len(made))
    return found


@some
@given(
    st.data(),
    near() | st.lists(st.sampled_from(BUSY) | st.sampled_from(OF_KEYS), min_size=1, max_size=2),
    disordered(25) | storms(40),
    st.sampled_from([1, sys.maxsize]),
)
def test_changes_as_columns_are_those_row_by_row(
    data: st.DataObject, bodies: list[Body], made: list[Record], least: int
) -> None:
    rules = [reevaluated(body, number) for number, body in enumerate(bodies)]
    changes_of(rules, made, data.draw(shapes(len(made))), least)


def test_a_hot_key_near_its_threshold_changes_at_many_records() -> None:
    """Each late record moves the crossing, so records have another alert; some begin to hold, and some cease to."""
    rule: Body = {**WITHIN, "rule_id": "r0", "version": 1, "source_topic": STREAM, "rule_type": "velocity"}
    rule |= {"group_by": "account", "aggregation_type": "avg", "aggregation_field": "amount", "window": "2s"}
    drawn, made = random.Random(7), list[Record]()
    for number in range(300):
        at_ms = START_MS + 100 * number
        late_ms = drawn.choice([0, 0, 0, 0, drawn.randrange(5_900)])
        fields = {"account": "a1", "device": 1, "amount": drawn.randrange(7), "price": 0.1, "kind": "POS"}
        made.append({**fields, "_id": f"t{number}", "_event_ms": at_ms - late_ms, "_ingest_ms": at_ms})
    found = changes_of([{**rule, "aggregation_threshold": 3}], made, Shape(1, [(0, 150), (150, 300)], []), 4)
    of_record = Counter(each.hit.record_id for each in found)
    assert max(of_record.values()) >= 3
    assert {each.stands for each in found} == {True, False}
    assert {each.because is None for each in found} == {True, False}
