"""What a replica says of records is what the pipeline decides of them in its next batch, whatever was before."""

from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.basics.conditions.lists import named_lists
from crossline.evaluate.bounds import Bounds
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log import state_log
from crossline.runtime.state_log.followed_state import FollowedState
from crossline.serve.replica.overlay import Laid, StateOverlay, overlay_snapshot

from .composed_strategies import composed_sets
from .fastpath import stream_spec
from .living import Feed, Life
from .replicated import Pipeline, comparable, with_policy
from .strategies import (
    LISTS,
    STREAM,
    Body,
    Record,
    absence_body,
    records,
    rule_sets,
    sequence_body,
    wire_record,
)
from .test_decisions import DEEP, DEFAULTS, POLICIES, WEIGHTS, weighted
from .test_publications import lives


def rule_set(bodies: list[Body]) -> RuleSet:
    made = [read_rule(body) for body in bodies]
    assert not any(found for _, found in made), [found for _, found in made]
    return RuleSet.from_rules(rule for rule, _ in made if rule is not None)


def snapshot_of(bodies: list[Body], policy: Body, shards: int, *, ingest_column: bool) -> PlanSnapshot:
    streams = {STREAM: stream_spec(ingest_column=ingest_column)}
    return with_policy(PlanSnapshot(rule_set(bodies), streams, DEFAULTS, shards, Bounds(0), named_lists(LISTS)), policy)


def line(record: Record) -> bytes:
    return orjson.dumps(wire_record(record))


def in_fork(work: Callable[[], Any]) -> Any:
    """What comes of it in a copy of this process: what is judged there leaves nothing here, as in a replica."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                pickle.dump(work(), file)
        except BaseException:  # noqa: BLE001 - passed on to the thread that waits
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        raw = file.read()
    os.waitpid(pid, 0)
    return pickle.loads(raw)  # noqa: S301 - our own


def replica_answers(snapshot: PlanSnapshot, followed: FollowedState, batch: int, cuts: list[list[Record]]) -> list[Any]:
    """What a replica says of the records of ``cuts``, each judged at once, after those before."""
    followed.advance(snapshot, batch)

    def work() -> list[Any]:
        overlay = StateOverlay(overlay_snapshot(snapshot), followed.states)
        found = [
            each
            for cut in cuts
            for each in overlay.judge([Laid(STREAM, one["_id"], line(one), one["_ingest_ms"]) for one in cut])
        ]
        return [comparable(each.decision) for each in found if each.decision]

    return in_fork(work)  # type: ignore[no-any-return]


@contextmanager
def merging() -> Iterator[None]:
    """The log is merged and tidied every other batch."""
    with (
        mock.patch.object(state_log, "MERGE_AT", 4),
        mock.patch.object(state_log, "MERGE_COUNT", 2),
        mock.patch.object(caching, "MERGE_AT", 4),
        mock.patch.object(caching, "MERGE_COUNT", 2),
        mock.patch.object(caching, "MERGE_EVERY", 2),
    ):
        yield


@st.composite
def cut(draw: st.DrawFn, made: list[Record]) -> list[list[Record]]:
    """``made`` in pieces."""
    pieces, at = [], 0
    while at < len(made):
        size = draw(st.integers(1, max(1, (len(made) - at) // 2)))
        pieces.append(made[at : at + size])
        at += size
    return pieces


MORE = st.fixed_dictionaries({}, optional={"hold": st.just("3s"), "reevaluate": st.just(True)})


def with_more(bodies: list[Body], more: list[Body]) -> list[Body]:
    """``bodies`` with what of ``more`` each version of them takes; it has one body, under whatever status."""
    found, numbers = list[Body](), dict[tuple[Any, Any], int]()
    for body in bodies:
        number = numbers.setdefault((body["rule_id"], body["version"]), len(numbers))
        fuller = {**body, **more[number % len(more)]}
        found.append(body if read_rule(fuller)[1] else fuller)
    return found


@settings(
    max_examples=400 if DEEP else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rule_sets() | composed_sets() | st.lists(sequence_body() | absence_body(), min_size=1, max_size=2),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    st.lists(MORE, min_size=1, max_size=3),
    POLICIES,
    records(repeats="exact"),
    st.booleans(),
    st.integers(1, 3),
    st.data(),
)
def test_what_a_replica_says_is_what_the_pipeline_decides_next(
    rules: list[Body],
    weights: list[Body],
    more: list[Body],
    policy: Body,
    made: list[Record],
    ingest_column: bool,
    shards: int,
    data: st.DataObject,
) -> None:
    caching._CACHE.clear()
    named = [{"rule_id": f"s{number}", "version": 1, **body} for number, body in enumerate(rules)]
    bodies = with_more(weighted(named, weights, 3), more)
    with tempfile.TemporaryDirectory() as name, merging():
        pipeline = Pipeline(Path(name), snapshot_of(bodies, policy, shards, ingest_column=ingest_column))
        following = FollowedState(f"{name}/state")
        for batch in data.draw(cut(made)):
            snapshot, last = pipeline.file.current(), pipeline.batches - 1
            cuts = data.draw(cut(batch))
            if data.draw(st.booleans()):
                pipeline.restart()
            by_follower = replica_answers(snapshot, following, last, cuts) if data.draw(st.integers(0, 2)) else None
            anew = replica_answers(snapshot, FollowedState(f"{name}/state"), last, cuts)
            decided = pipeline.batch([(STREAM, [line(record) for record in batch])])
            assert anew == [comparable(each) for each in decided if each["kind"] == "decision"]
            assert by_follower in (None, anew)
        assert following.anew == 0 or len(made) > 4


@settings(
    max_examples=400 if DEEP else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data(), records(30, repeats="exact"), st.booleans(), POLICIES, st.integers(1, 3))
def test_so_it_is_where_rules_come_and_go_with_their_pasts(
    data: st.DataObject, made: list[Record], ingest_column: bool, policy: Body, shards: int
) -> None:
    ops = data.draw(lives(len(made)))
    deciding = Deciding(Policy.model_validate(policy), every=True)
    with tempfile.TemporaryDirectory() as name:
        spec = stream_spec(ingest_column=ingest_column)
        life = Life(Path(name), spec, DEFAULTS, shards, 0, Feed(), deciding=deciding)
        life.start()
        following, at = FollowedState(f"{name}/state"), 0
        for happens, what in ops:
            if happens == "publish":
                life.feed.waiting.append(what)
                life.side_input()
                life.between()
            elif happens == "ahead":
                life.feed.waiting.append(what)
                life.read_ahead()
            elif happens == "restart":
                life.start()
            elif happens == "lose":
                life.lose(what)
            else:
                count, pieces, _ = what
                batch = made[at : at + count]
                at += count
                cuts = data.draw(cut(batch))
                before = life.changes.file.current()
                lines = [
                    replica_answers(before, each, life.batches - 1, cuts)
                    for each in (FollowedState(f"{name}/state"), following)
                ]
                life.take_in(batch, pieces)
                found = life.judge(life.plan_batch())
                decided = [comparable(each) for each in life.decided if each["kind"] == "decision"]
                if life.changes.file.current() is before:  # else rules came in force for this batch
                    assert lines == [decided, decided]
                life.deliver(found)
                life.commit()
                life.between()
