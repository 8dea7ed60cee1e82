"""Hits and corrections of replayed rows: as columns what is found hit by hit."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from crossline.evaluate import shard as shards_of
from crossline.evaluate.alerts.corrections import replayed_hits
from crossline.evaluate.alerts.hits import Hit
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import ReplayedRows
from crossline.state.retraction import replays

from .fastpath import FastPath, plans_of, stream_spec
from .naive_corrections import naive_corrections
from .near_thresholds import LEAST, RECORDS, RULES, hot_key, some
from .strategies import Body, Record
from .test_corrections import reevaluated
from .test_detect_equals_naive import Shape, run, shapes


def compared(found: list[Hit]) -> Any:
    """Each batch is looked at by both, and what they find is noted; in the same order."""

    def both(plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int) -> list[Hit]:
        mine = replayed_hits(plan, store_plan, replayed, logs)
        assert mine == naive_corrections(plan, store_plan, replayed, logs)
        found.extend(mine)
        return mine

    return mock.patch.object(shards_of, "replayed_hits", both)


def hits_of(rules: list[Body], made: Sequence[Record], shape: Shape, least: int) -> list[Hit]:
    """All hits and corrections of a run, where ``least`` late records are judged once."""
    found: list[Hit] = []
    path = FastPath.of(plans_of(rules, stream_spec(ingest_column=True), {}), shape.shards)
    with compared(found), mock.patch.object(replays, "LEAST", least):
        run(path, shape, made, ["log"] * len(made))
    return found


@some
@given(st.data(), RULES, RECORDS, LEAST)
def test_corrections_as_columns_are_those_hit_by_hit(
    data: st.DataObject, bodies: list[Body], made: list[Record], least: int
) -> None:
    rules = [reevaluated(body, number) for number, body in enumerate(bodies)]
    hits_of(rules, made, data.draw(shapes(len(made))), least)


def test_a_hot_key_near_its_threshold_is_corrected_in_all_ways() -> None:
    """Each late record moves the average, so alerts come, change, go and come again."""
    rule, made = hot_key()
    for least in (4, sys.maxsize):
        shape = Shape(1, [(0, 150), (150, 300)], [])
        found = hits_of([rule], made, shape, least)
        outcomes = Counter(None if each.correction is None else each.correction.outcome for each in found)
        assert outcomes.keys() == {None, "amended", "reinstated", "retracted"}
        assert min(outcomes.values()) > 1
        assert any(each.cause is not None and each.correction is None for each in found)
