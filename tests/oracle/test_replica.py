"""What a replica says of records is what the pipeline decides of them in its next batch, whatever was before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.core.conditions.lists import named_lists
from crossline.core.judge.shard import Bounds
from crossline.core.rules.reading import read_rule
from crossline.core.rules.ruleset import RuleSet
from crossline.engine.book.book import Book
from crossline.engine.state import cache as caching
from crossline.engine.state.follow import FollowedState
from crossline.serve.replica.overlay import Laid, Overlay, overlay_book

from .fastpath import stream_spec
from .replicated import Pipeline, told, with_policy
from .strategies import (
    LISTS,
    STREAM,
    Body,
    Record,
    composed_sets,
    records,
    rule_sets,
    sequence_body,
    wire_record,
)
from .test_decisions import DEEP, DEFAULTS, POLICIES, WEIGHTS, weighted


def rule_set(bodies: list[Body]) -> RuleSet:
    made = [read_rule(body) for body in bodies]
    assert not any(found for _, found in made), [found for _, found in made]
    return RuleSet.from_rules(rule for rule, _ in made if rule is not None)


def book_of(bodies: list[Body], policy: Body, shards: int, *, ingest_column: bool) -> Book:
    streams = {STREAM: stream_spec(ingest_column=ingest_column)}
    return with_policy(Book(rule_set(bodies), streams, DEFAULTS, shards, Bounds(0), named_lists(LISTS)), policy)


def line(record: Record) -> bytes:
    return orjson.dumps(wire_record(record))


def judged_by_replica(pipeline: Pipeline, followed: FollowedState, cuts: list[list[Record]]) -> list[Any]:
    """What is said of the records of ``cuts``, each judged at once, after those before."""
    book = pipeline.file.current()
    followed.advance(book, pipeline.batches - 1)
    overlay = Overlay(overlay_book(book), followed.states)
    said = []
    for cut in cuts:
        said += overlay.judge([Laid(STREAM, record["_id"], line(record), record["_ingest_ms"]) for record in cut])
    return said


@st.composite
def cut(draw: st.DrawFn, made: list[Record]) -> list[list[Record]]:
    """``made`` in pieces."""
    pieces, at = [], 0
    while at < len(made):
        size = draw(st.integers(1, max(1, len(made) - at)))
        pieces.append(made[at : at + size])
        at += size
    return pieces


@settings(
    max_examples=400 if DEEP else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets() | composed_sets() | st.lists(sequence_body(), min_size=1, max_size=2),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    POLICIES,
    records(repeats="exact"),
    st.booleans(),
    st.integers(1, 3),
    st.data(),
)
def test_what_a_replica_says_is_what_the_pipeline_decides_next(
    rules: list[Body],
    weights: list[Body],
    policy: Body,
    made: list[Record],
    ingest_column: bool,
    shards: int,
    data: st.DataObject,
) -> None:
    named = [
        {**body, "rule_id": f"s{number}", "version": 1} if "rule_id" not in body else body
        for number, body in enumerate(rules)
    ]
    caching._CACHE.clear()
    with tempfile.TemporaryDirectory() as name:
        book = book_of(weighted(named, weights, 3), policy, shards, ingest_column=ingest_column)
        pipeline, incremental = Pipeline(Path(name), book), FollowedState(f"{name}/state")
        batches = data.draw(cut(made))
        for batch in batches:
            incremental.advance(pipeline.file.current(), pipeline.batches - 1)
            said = judged_by_replica(pipeline, FollowedState(f"{name}/state"), data.draw(cut(batch)))
            decided = pipeline.batch([(STREAM, [line(record) for record in batch])])
            assert [told(each.decision) for each in said if each.decision] == [told(each) for each in decided]
