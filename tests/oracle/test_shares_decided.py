"""Decisions and holds of versions for a share of keys: by the naive twin, and key by key against runs without a share.

A key in the share is decided about as if the version had no share, another one as if the version were not there; in
the stream, in replays, by what a replica says beforehand (``peek``; ``exact`` is what the stream decides), over
restarts, and where the share changes midway.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from crossline.rules.holds.release import Release, release_key
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.rule_reader import read_rule
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.followed_state import FollowedState

from .conditions import field_value
from .decisions import ExpectedDecision, naive_decisions
from .fastpath import stream_spec
from .holds import Release as NaiveRelease
from .holds import naive_holds
from .living import Feed, Life
from .naive import naive_detect, running_max_ingest
from .replicated import Pipeline
from .strategies import LISTS, START_MS, STREAM, Body, Record, records, rule_sets, velocity_body, wire_record
from .test_decisions import DEEP, DEFAULTS, POLICIES, WATERMARK, WEIGHTS, comparable, deciding, weighted
from .test_detect_equals_naive import with_ingest
from .test_holds import HOLDS, RELEASES, decisions_of, with_holds
from .test_replica import cut, line, replica_answers, snapshot_of
from .test_runners import judged_of, outcomes, split
from .test_shares import SHARES, lives

OWN_TIMES = ("watermark_delay", "allowed_lateness", "time_mode", "timestamp_field", "late_policy")
some = settings(
    max_examples=300 if DEEP else 6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def slot(rule_id: str, key: Mapping[str, Any]) -> float:
    """As docs/semantics.md has it, of 100."""
    text = f"{rule_id}\x1f".encode() + orjson.dumps(dict(key))
    return int(hashlib.sha256(text).hexdigest()[:16], 16) / 2**64 * 100


def keyed(body: Body) -> bool:
    rule, findings = read_rule({**body, "share": "50%"})
    return rule is not None and not findings


@st.composite
def shared_out(draw: st.DrawFn, rules: list[Body]) -> list[Body]:
    """``rules``, some of them for shares of keys that change."""
    found: list[Body] = []
    for body in rules:
        found.append(body)
        if not keyed(body) or not draw(st.booleans()):
            continue
        found[-1] = {**body, "share": draw(st.sampled_from(SHARES))}
        from_ms = body.get("effective_from", START_MS)
        steps = sorted(draw(st.lists(st.integers(0, 30), max_size=2, unique=True)))
        later = [{"share": draw(st.sampled_from(SHARES)), "effective_from": from_ms + 500 * step} for step in steps]
        found += [{**body, **each} for each in later]
    return found


@some
@given(
    st.data(),
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    HOLDS,
    POLICIES,
    records(),
    RELEASES,
    st.booleans(),
    st.sampled_from([(1, 1), (2, 300), (3, 2_000)]),
)
def test_a_replay_decides_and_holds_as_the_twin_says(
    data: st.DataObject,
    rules: list[Body],
    weights: list[Body],
    holds: list[str | None],
    policy: Body,
    made: list[Record],
    released: list[tuple[str, str, int]],
    ingest_column: bool,
    spread: tuple[int, int],
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    rules = with_holds(weighted(data.draw(shared_out(rules)), weights, 3), holds)
    freed = [(rule_id, {"account": account}, START_MS + 500 * step) for rule_id, account, step in released]
    wanted = by_twin(rules, made, policy, freed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
        judged = deciding(judged_of(rules, paths, ingest_column=ingest_column), policy, every=True)
        more = tuple(Release(rule_id, release_key(key), at_ms) for rule_id, key, at_ms in freed)
        judged = replace(judged, rules=replace(judged.rules, releases=more))
        whole = [each for outcome in outcomes(judged, folder, 1, 1_000_000) for each in outcome.decisions]
        kept = decisions_of(judged, folder, *spread, kept=True)
    assert [comparable(each) for each in whole] == wanted
    assert [comparable(each) for each in kept] == wanted


def by_twin(
    bodies: list[Body], made: Sequence[Record], policy: Body, released: Sequence[NaiveRelease] = ()
) -> list[ExpectedDecision]:
    """What must be decided, by twins that know shares as rules have them."""
    result = naive_detect(bodies, made, defaults=WATERMARK, lists=LISTS)
    held = naive_holds(bodies, result, made, WATERMARK, released)
    return naive_decisions(policy, bodies, result, made, WATERMARK, every=True, held=held)


@some
@given(st.data(), records(30), st.lists(WEIGHTS, min_size=1, max_size=4), HOLDS, POLICIES, st.integers(1, 3))
def test_a_stream_and_its_replica_decide_so_where_shares_change_midway(
    data: st.DataObject,
    made: list[Record],
    weights: list[Body],
    holds: list[str | None],
    policy: Body,
    shards: int,
) -> None:
    ops = data.draw(lives(len(made)))
    bodies = with_holds(weighted([what for happens, what in ops if happens == "publish"], weights, 3), holds)
    given_ = Deciding(Policy.model_validate(policy), every=True)
    with tempfile.TemporaryDirectory() as name:
        life = Life(Path(name), stream_spec(ingest_column=True), DEFAULTS, shards, 0, Feed(), deciding=given_)
        found = lived(life, ops, iter(bodies), made, data)
        logged = life.feed.logged
    assert [comparable(each) for each in found] == by_twin(logged, made, policy)


def lived(
    life: Life, ops: Sequence[Any], bodies: Iterator[Body], made: Sequence[Record], data: st.DataObject
) -> list[Any]:
    """The decisions; a replica must give those of each batch beforehand."""
    life.start()
    following, at, decided = FollowedState(f"{life.folder}/state"), 0, []
    for happens, what in ops:
        if happens == "restart":
            life.start()
        elif happens == "publish":
            life.feed.waiting.append(next(bodies))
            life.side_input()
            life.between()
        else:
            batch = made[at : at + what[0]]
            at += what[0]
            before, cuts = life.changes.file.current(), data.draw(cut(list(batch)))
            lines = [
                replica_answers(before, each, life.batches - 1, cuts)
                for each in (FollowedState(f"{life.folder}/state"), following)
            ]
            life.take_in(batch, what[1])
            chunks = life.plan_batch()
            alerts = life.judge(chunks)
            if happens == "killed":
                life.start()
                alerts = life.judge(chunks)
            mine = [each for each in life.decided if each["kind"] == "decision"]
            if life.changes.file.current() is before:
                event("answered beforehand")
                assert [[comparable(each) for each in one] for one in lines] == [
                    [comparable(each) for each in mine]
                ] * 2
            decided += mine
            life.deliver(alerts)
            life.commit()
            life.between()
    return decided


@some
@given(
    st.data(),
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    HOLDS,
    POLICIES,
    records(repeats="none"),
    st.sampled_from(SHARES),
    st.booleans(),
    st.integers(1, 3),
)
def test_each_key_is_judged_as_if_there_were_no_share_or_no_such_version(
    data: st.DataObject,
    others: list[Body],
    weights: list[Body],
    holds: list[str | None],
    policy: Body,
    made: list[Record],
    share: str,
    replaces: bool,
    shards: int,
) -> None:
    """Against two runs without any share, from which each record takes that of its key."""
    fresh = {name: value for name, value in data.draw(velocity_body()).items() if name not in OWN_TIMES}
    older = {name: value for name, value in data.draw(velocity_body()).items() if name not in OWN_TIMES}
    more = data.draw(st.sampled_from([{}, {"hold": "3s"}]))
    groups = data.draw(st.sampled_from([["account"], ["device"], ["account", "device"]]))
    both = {**more, "rule_id": "mine", "group_by": groups}
    new = {**fresh, **both, "version": 2, "action": "block", "score": 50}
    old = {**older, **both, "version": 1, "action": "review", "score": 10}
    others = with_holds(weighted(others, weights, 3), holds)
    # What is too late for all rules is decided by none: each run has rules that are as patient, and decide nothing.
    apart = {"group_by": groups, "version": 1, "status": "shadow"}
    others += [{**fresh, **apart, "rule_id": "as_new"}, {**older, **apart, "rule_id": "as_old"}]
    before = [old] if replaces else []
    cuts = data.draw(cut(list(made)))
    runs = [
        run(bodies, policy, shards, cuts, data)
        for bodies in ([*others, new], [*others, *before], [*others, *before, {**new, "share": share}])
    ]
    by_record = {record["_id"]: record for record in made}

    def mine(decision: Any) -> bool:
        values = {name: field_value(by_record[decision.record_id], name) for name in groups}
        return None not in values.values() and slot("mine", values) < float(share.rstrip("%"))

    inside, outside, found = runs
    wanted = [one if mine(one) else other for one, other in zip(inside, outside, strict=True)]
    event(f"{sum(map(mine, inside)) > 0} {sum(map(mine, inside)) < len(inside)}")
    assert found == wanted


def run(
    bodies: list[Body], policy: Body, shards: int, cuts: list[list[Record]], data: st.DataObject
) -> list[ExpectedDecision]:
    """The decisions of a pipeline, which its replica must give beforehand; the replica restarts now and then."""
    caching._CACHE.clear()
    found: list[ExpectedDecision] = []
    with tempfile.TemporaryDirectory() as name:
        pipeline = Pipeline(Path(name), snapshot_of(bodies, policy, shards, ingest_column=True))
        for batch in cuts:
            snapshot, last = pipeline.file.current(), pipeline.batches - 1
            if data.draw(st.booleans()):
                pipeline.restart()
            shown = replica_answers(snapshot, FollowedState(f"{name}/state"), last, [batch])
            decided = pipeline.batch([(STREAM, [line(record) for record in batch])])
            mine = [comparable(each) for each in decided if each["kind"] == "decision"]
            assert [comparable(each) for each in shown] == mine
            found += mine
    return found
