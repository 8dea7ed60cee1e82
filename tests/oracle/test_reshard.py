"""A checkpoint that gets another number of shards, wherever the stream is cut, tells what it tells without that.

The checkpoint is a real one, on disk, led as in ``living``; the twin is a life that nothing happens to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.core.basics.errors import StateError
from crossline.core.rules.base import Defaults
from crossline.engine.book.book import BookSource
from crossline.engine.hops.judging import Judging
from crossline.engine.state import cache as caching
from crossline.engine.state import reshard as resharding
from crossline.engine.state.cache import ShardCache
from crossline.engine.state.reshard import BEGUN, WHOLE, reshard, settle

from .fastpath import stream_spec
from .living import Feed, Life, Told
from .strategies import STREAM, Body, Record, composed_sets, records, rule_sets
from .test_contexts import RULE as WAITING
from .test_corrections import BUSY, IN_PANES, disordered, reevaluated
from .test_corrections_keys import BUSY as OF_KEYS
from .test_detect_equals_naive import DEEP, many
from .test_meeting import OTHER, meeting_sets, met, other_spec
from .test_publications import COUNT, _publication, _record
from .test_risk import RISKY, scored

Op = tuple[str, Any]
TIMES = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=4000)
FIGURES: Body = {
    "rule_type": "formula",
    "source_topic": STREAM,
    "figures": {
        "f0": {"count": True, "group_by": "account", "window": "8s", "resolution": "1s"},
        "f1": {"distinct_count": "device", "group_by": "account", "window": "8s", "resolution": "1s"},
    },
    "when": "f0 >= f1",
    "emit": "every",
}
# Where the pipeline stands when it is stopped: between two batches, one planned, judged, with its sinks.
STOPPED = ["between", "between", "planned", "judged", "delivered"]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Body], list[Record]]:
    """Rules whose states are of all kinds, and records for them."""
    kind = draw(st.sampled_from(["any", "hits", "again", "panes", "met", "waiting", "risk"]))
    if kind == "met":
        return draw(meeting_sets(several=draw(st.booleans()))), draw(met(ingest_column=True))[0]
    if kind == "waiting":
        return [WAITING], draw(met(ingest_column=True))[0]
    if kind == "again":
        bodies = draw(st.lists(st.sampled_from(BUSY) | st.sampled_from(OF_KEYS), min_size=1, max_size=2))
        return [reevaluated(body, number) for number, body in enumerate(bodies)], draw(disordered(30))
    if kind == "panes":
        panes = [{**body, "rule_id": f"p{n}", "version": 1} for n, body in enumerate((IN_PANES, FIGURES))]
        return [*panes, *draw(rule_sets(1))], draw(records())
    if kind == "risk":
        return [*scored(draw(rule_sets(2))), RISKY], draw(records())
    return draw(rule_sets() if kind == "any" else composed_sets()), draw(records())


@st.composite
def happenings(draw: st.DrawFn, count: int) -> list[Op]:
    """Batches of all records, rules that are published between them, and numbers of shards at stops."""
    ops: list[Op] = []
    bodies: dict[str, list[Body]] = {}
    left = count
    while left:
        size = draw(st.integers(1, max(1, left // 2)))
        stop = draw(st.none() | st.tuples(st.sampled_from(STOPPED), st.integers(1, 5)))
        ops.append(("batch", (size, draw(st.integers(1, 2)), stop)))
        left -= size
        if draw(st.integers(0, 4)) == 0:
            body = draw(_publication(bodies))
            ops.append(("publish", {**body, "rule_id": f"later-{body['rule_id']}"}))
    return ops


def begun(folder: Path, rules: Sequence[Body], shards: int) -> Life:
    others = {OTHER: other_spec(ingest_column=True)}
    life = Life(folder, stream_spec(ingest_column=True), TIMES, shards, 0, Feed(logged=list(rules)), others)
    life.start()
    return life


def stop(life: Life, shards: int) -> None:
    """The pipeline is stopped, gets as many shards, and starts again."""
    reshard(life.folder, "payments", shards)
    life.shards = shards
    life.start()


def lead(life: Life, ops: Sequence[Op], made: Sequence[Record], *, stops: bool) -> None:
    at = 0
    for happens, what in ops:
        if happens == "publish":
            life.feed.waiting.append(what)
            life.look()
            life.between()
            continue
        size, pieces, stopped = what
        where, shards = stopped if stops and stopped else ("", 0)
        life.take_in(made[at : at + size], pieces)
        at += size
        chunks = life.plan_batch()
        if where == "planned":
            stop(life, shards)
        told = life.judge(chunks)
        if where == "judged":
            stop(life, shards)
            assert plain(life.judge(chunks)) == plain(told)
        life.deliver(told)
        if where == "delivered":
            stop(life, shards)
            assert plain(life.judge(chunks)) == plain(told)
            life.deliver(([], [], []))
        life.commit()
        life.between()
        if where == "between":
            stop(life, shards)


def plain(told: Told) -> list[list[str]]:
    """Alerts whole, but for when they were detected; where duplicates and late records stand."""
    alerts = [{name: value for name, value in alert.items() if name != "detected_at"} for alert in told[0]]
    return [sorted(map(repr, each)) for each in (alerts, *told[1:])]


@settings(many, max_examples=1500 if DEEP else 20)
@given(st.data(), cases(), st.integers(1, 3))
def test_any_stream_cut_anywhere_tells_the_same(
    data: st.DataObject, case: tuple[list[Body], list[Record]], shards: int
) -> None:
    rules, made = case
    ops = data.draw(happenings(len(made)))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        whole, cut = begun(Path(folder), rules, shards), begun(Path(other), rules, shards)
        lead(whole, ops, made, stops=False)
        lead(cut, ops, made, stops=True)
    told, found = ((life.alerts, life.duplicates, life.late) for life in (whole, cut))
    assert plain(found) == plain(told)
