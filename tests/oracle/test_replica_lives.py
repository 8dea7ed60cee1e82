"""What a replica says is what the pipeline decides next: partitions of a topic, lists and tables that change."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, Policy
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.followed_state import FollowedState

from .fastpath import stream_spec
from .living import Feed, Life
from .naive import running_max_ingest
from .replicated import OfTopic, Pipeline
from .strategies import STREAM, Body, Record, records, rule_sets
from .test_decisions import POLICIES, WEIGHTS, weighted
from .test_detect_equals_naive import with_ingest
from .test_lists_in_time import changing_lives as lives_with_lists
from .test_lists_in_time import histories
from .test_replica_more import in_order, line, pieces_of, replica_answers, snapshot_of, some
from .test_tables_in_time import changing_lives as lives_with_tables
from .test_tables_in_time import enriched_spec, logged, store_in, tables


@some
@given(
    st.data(),
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=4),
    POLICIES,
    records(30),
    st.sampled_from([1, 2, 3]),
    st.integers(1, 3),
)
def test_partitions_of_a_topic(
    data: st.DataObject,
    rules: list[Body],
    weights: list[Body],
    policy: Body,
    made: list[Record],
    partitions: int,
    shards: int,
) -> None:
    """Ingest times are the broker's, the same or later in whichever partition; tombstones stand between records."""
    snapshot = snapshot_of({STREAM: stream_spec(ingest_column=False)}, weighted(rules, weights, 3), policy, shards)
    of = data.draw(st.lists(st.integers(0, partitions - 1), min_size=len(made), max_size=len(made)))
    # Within an instant a batch has what partition 0 has before what partition 1 has.
    order = sorted(range(len(made)), key=lambda n: (made[n]["_ingest_ms"], of[n], n))
    made = [{**made[n], "_partition": of[n]} for n in order]
    caching._CACHE.clear()
    with tempfile.TemporaryDirectory() as name:
        pipeline = Pipeline(Path(name), snapshot, kind="kafka")
        for batch in pieces_of(data, made, at_instants=True):
            cuts = pieces_of(data, batch, at_instants=True)
            following = FollowedState(f"{name}/state")
            found = replica_answers(snapshot, following, pipeline.batches - 1, cuts, by_broker=[STREAM])
            pieces = []
            for number in range(partitions):
                mine = [each for each in batch if each["_partition"] == number]
                values: list[bytes | None] = [line(each) for each in mine]
                came = [each["_ingest_ms"] for each in mine]
                if mine and data.draw(st.booleans()):
                    values, came = [None, *values], [came[0], *came]
                pieces += [OfTopic(STREAM, f"payments-{number}", values, came)] if mine else []
            decided = pipeline.batch([], of_topics=pieces)
            assert found == in_order([each for each in decided if each["kind"] == "decision"])


def live(life: Life, ops: Sequence[tuple[str, Any]], made: Sequence[Record], data: st.DataObject) -> None:
    """Lead ``life`` through ``ops``: what replicas say before a batch is what it decides, by the snapshot of then."""
    life.start()
    root, at = f"{life.folder}/state", 0
    following = FollowedState(root)
    for happens, what in ops:
        if happens == "lists":
            life.feed.waiting_lists = {**life.feed.waiting_lists, **what}
        elif happens == "tables":
            life.feed.waiting_tables = {**life.feed.waiting_tables, **what}
        elif happens == "publish":
            life.feed.waiting.append(what)
        elif happens == "restart":
            life.start()
        elif happens in {"batch", "killed", "uncommitted"}:
            batch = made[at : at + what[0]]
            at += what[0]
            before, cuts = life.changes.file.current(), pieces_of(data, batch)
            lines = [replica_answers(before, each, life.batches - 1, cuts) for each in (FollowedState(root), following)]
            life.take_in(batch, what[1])
            found = life.judge(life.plan_batch())
            decided = in_order([each for each in life.decided if each["kind"] == "decision"])
            if life.changes.file.current() is before:  # else something came in force for this batch
                assert lines == [decided, decided]
            life.deliver(found)
            life.commit()
        life.side_input()
        life.between()


@some
@given(st.data(), records(30), st.booleans(), POLICIES, histories())
def test_lists_that_change_and_entries_that_end(
    data: st.DataObject, made: list[Record], ingest_column: bool, policy: Body, lists: dict[str, Any]
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    ops = data.draw(lives_with_lists(len(made)))
    feed = Feed(lists={name: contents[:1] for name, contents in lists.items()})
    deciding = Deciding(Policy.model_validate(policy), every=True)
    with tempfile.TemporaryDirectory() as name:
        spec = stream_spec(ingest_column=ingest_column)
        live(
            Life(Path(name), spec, Defaults(), data.draw(st.integers(1, 3)), 0, feed, deciding=deciding),
            ops,
            made,
            data,
        )


@some
@given(st.data(), records(30), st.booleans(), POLICIES, tables(0))
def test_tables_that_change(
    data: st.DataObject, made: list[Record], ingest_column: bool, policy: Body, mine: list[Any]
) -> None:
    spec = enriched_spec(ingest_column=ingest_column)
    ops = data.draw(lives_with_tables(len(made)))
    deciding = Deciding(Policy.model_validate(policy), every=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = store_in(folder, mine, spec)
        feed = Feed(tables=mine, log_tables=partial(logged, spec=spec, stream=STREAM, store=store))
        feed.prune = store.prune
        life = Life(folder, spec, Defaults(), data.draw(st.integers(1, 3)), 0, feed, deciding=deciding)
        live(life, ops, made, data)
