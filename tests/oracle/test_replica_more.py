"""What a replica says is what the pipeline decides next: several streams, key spaces, and kinds of rules."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from bench.workload import R5, velocity
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.basics.conditions.lists import named_lists
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.rules.holds.release import Release, release_key
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.followed_state import FollowedState
from crossline.serve.replica.overlay import Laid, StateOverlay, overlay_snapshot

from .fastpath import stream_spec
from .replicated import Pipeline, comparable, with_policy
from .strategies import LISTS, START_MS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_corrections import BUSY, disordered, reevaluated
from .test_corrections_keys import BUSY as OF_KEYS
from .test_corrections_types import CASES
from .test_decisions import DEEP, DEFAULTS, POLICIES, WEIGHTS, weighted
from .test_holds import HOLDS, with_holds
from .test_replica import in_fork, merging, rule_set
from .test_risk import RISKY, scored
from .test_stream_join import OTHER, awaited, draw_joined, join_sets, other_spec, reader_times

PLAIN: Body = {"schema_version": 1, "version": 1}
some = settings(
    max_examples=120 if DEEP else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def snapshot_of(streams: dict[str, StreamSpec], bodies: Sequence[Body], policy: Body, shards: int) -> PlanSnapshot:
    rules = rule_set(list(bodies))
    return with_policy(PlanSnapshot(rules, streams, DEFAULTS, shards, Bounds(0), named_lists(LISTS)), policy)


def in_order(decisions: Sequence[Any]) -> list[Any]:
    """By stream and id; records of several streams have no one order in what a batch gives."""
    return sorted(
        (comparable(each) for each in decisions), key=lambda each: (each["stream"], each["record_id"], str(each))
    )


def line(record: Record) -> bytes:
    return orjson.dumps(record.get("_wire") or wire_record(record))


def stream_of(record: Record) -> str:
    return str(record.get("_stream", STREAM))


def replica_answers(
    snapshot: PlanSnapshot,
    followed: FollowedState,
    batch: int,
    cuts: Sequence[Sequence[Record]],
    by_broker: Sequence[str] = (),
) -> list[Any]:
    """What a replica says of the records of ``cuts``, each judged at once, after those before."""
    followed.advance(snapshot, batch)

    def work() -> list[Any]:
        overlay = StateOverlay(overlay_snapshot(snapshot), followed.states, by_broker)
        laid = [[Laid(stream_of(r), r["_id"], line(r), r["_ingest_ms"]) for r in cut] for cut in cuts]
        return in_order([each.decision for cut in laid for each in overlay.judge(cut) if each.decision])

    return in_fork(work)  # type: ignore[no-any-return]


def pieces_of(data: st.DataObject, made: Sequence[Record], *, at_instants: bool = False) -> list[list[Record]]:
    """``made`` in pieces; ``at_instants``: cut only where ingest time moves on."""
    ends = [n for n in range(1, len(made)) if not at_instants or made[n]["_ingest_ms"] > made[n - 1]["_ingest_ms"]]
    cuts = sorted(data.draw(st.sets(st.sampled_from(ends), max_size=5))) if ends else []
    return [list(made[start:end]) for start, end in itertools.pairwise([0, *cuts, len(made)]) if end > start]


def check(
    data: st.DataObject,
    snapshot: PlanSnapshot,
    made: Sequence[Record],
    *,
    at_instants: bool = False,
    releases: Sequence[Release] = (),
) -> None:
    """Batch by batch: what replicas say before, one that followed and one that begins anew, and what is decided.

    ``releases``: each becomes known before some batch.
    """
    caching._CACHE.clear()
    with tempfile.TemporaryDirectory() as name, merging():
        pipeline = Pipeline(Path(name), snapshot)
        following, known = FollowedState(f"{name}/state"), 0
        for batch in pieces_of(data, made, at_instants=at_instants):
            if known < len(releases):
                known = data.draw(st.integers(known, len(releases)))
                pipeline.rules(replace(pipeline.snapshot.rules, releases=tuple(releases[:known])))
            current, last = pipeline.file.current(), pipeline.batches - 1
            cuts = pieces_of(data, batch, at_instants=at_instants)
            texts = [replica_answers(current, each, last, cuts) for each in (FollowedState(f"{name}/state"), following)]
            lines = [(stream, [line(r) for r in batch if stream_of(r) == stream]) for stream in snapshot.streams]
            decided = pipeline.batch([(stream, mine) for stream, mine in lines if mine])
            wanted = in_order([each for each in decided if each["kind"] == "decision"])
            assert texts == [wanted, wanted]
            if data.draw(st.booleans()):
                pipeline.restart()


@some
@given(
    st.data(),
    st.booleans().flatmap(lambda several: join_sets(several=several)),
    awaited(),
    st.lists(WEIGHTS, min_size=1, max_size=4),
    POLICIES,
    st.booleans(),
    st.integers(1, 3),
)
def test_streams_that_meet(
    data: st.DataObject,
    rules: list[Body],
    waits: Body,
    weights: list[Body],
    policy: Body,
    ingest_column: bool,
    shards: int,
) -> None:
    """Figures, steps and absences of another stream, and a rule over their hits; all come in order of ingest time."""
    made, _ = data.draw(draw_joined(ingest_column=ingest_column))
    reader: Body = {"rule_id": "often", "version": 1, "rule_type": "velocity", "source_topic": "rule:waits"}
    reader |= {"window": "5s", "aggregation_type": "count", "aggregation_threshold": 1, "emit": "every"}
    bodies = weighted([*rules, waits, {**reader, **{n: waits[n] for n in reader_times(waits)}}], weights, 3)
    streams = {STREAM: stream_spec(ingest_column=ingest_column), OTHER: other_spec(ingest_column=ingest_column)}
    check(data, snapshot_of(streams, bodies, policy, shards), made, at_instants=True)


@some
@given(st.data(), rule_sets(3), records(30), POLICIES, st.booleans(), st.integers(1, 3))
def test_scores_of_entities(
    data: st.DataObject, rules: list[Body], made: list[Record], policy: Body, ingest_column: bool, shards: int
) -> None:
    """A rule reads the risk that the hits of all others add up to."""
    bodies = [*scored(rules), {**RISKY, "when": "risk >= 40", "action": "block"}]
    check(data, snapshot_of({STREAM: stream_spec(ingest_column=ingest_column)}, bodies, policy, shards), made)


@some
@given(
    st.data(),
    st.lists(st.sampled_from(BUSY) | st.sampled_from(OF_KEYS), min_size=1, max_size=3),
    st.lists(WEIGHTS, min_size=1, max_size=3),
    HOLDS,
    POLICIES,
    disordered(25),
    st.integers(1, 3),
)
def test_rules_that_judge_again_and_hold(
    data: st.DataObject,
    bodies: list[Body],
    weights: list[Body],
    holds: list[str | None],
    policy: Body,
    made: list[Record],
    shards: int,
) -> None:
    """Late records correct earlier output; the replica is asked for the first decision on each record."""
    made.sort(key=lambda record: record["_ingest_ms"])
    rules = with_holds(weighted([reevaluated(each, n) for n, each in enumerate(bodies)], weights, 0), holds)
    check(data, snapshot_of({STREAM: stream_spec(ingest_column=True)}, rules, policy, shards), made)


RELEASES = st.lists(
    st.tuples(st.sampled_from(["r0", "r1"]), st.sampled_from(["a1", "a2"]), st.integers(0, 20)), min_size=1, max_size=4
)


@some
@given(
    st.data(),
    rule_sets(),
    st.lists(WEIGHTS, min_size=1, max_size=5),
    st.lists(st.sampled_from(["1s", "12s", "1m"]), min_size=1, max_size=4),
    POLICIES,
    records(30),
    RELEASES,
    st.integers(1, 3),
)
def test_holds_that_are_released_meanwhile(
    data: st.DataObject,
    rules: list[Body],
    weights: list[Body],
    holds: list[str | None],
    policy: Body,
    made: list[Record],
    released: list[tuple[str, str, int]],
    shards: int,
) -> None:
    bodies = with_holds(weighted(rules, weights, 3), holds)
    releases = [Release(name, release_key({"account": key}), START_MS + 500 * step) for name, key, step in released]
    check(data, snapshot_of({STREAM: stream_spec(ingest_column=True)}, bodies, policy, shards), made, releases=releases)


PANES: list[Body] = [
    velocity("panes", "10s", "count", ">=", 2, group_by="account", resolution="2s", action="review"),
    velocity("sums", "20s", "sum", ">=", 3, group_by="device", aggregation_field="amount", resolution="10s", hold="5s"),
    {
        "rule_id": "several",
        "version": 1,
        "rule_type": "formula",
        "source_topic": STREAM,
        "figures": {
            "f0": {"count": True, "group_by": "account", "window": "10s", "resolution": "1s"},
            "f1": {"sum": "amount", "group_by": "device", "window": "10s", "resolution": "1s"},
        },
        "when": "f0 >= 2 or f1 > 2",
        "score": 40,
        "emit": "every",
    },
    {**CASES["model"].body, "rule_id": "scores", "version": 1, "score": 60, "action": "step_up"},
]


@some
@given(
    st.data(),
    st.lists(st.sampled_from(PANES), min_size=1, unique_by=lambda body: str(body["rule_id"])),
    rule_sets(2),
    POLICIES,
    records(30),
    st.booleans(),
    st.integers(1, 3),
)
def test_panes_and_models(
    data: st.DataObject,
    bodies: list[Body],
    rules: list[Body],
    policy: Body,
    made: list[Record],
    ingest_column: bool,
    shards: int,
) -> None:
    check(
        data, snapshot_of({STREAM: stream_spec(ingest_column=ingest_column)}, [*bodies, *rules], policy, shards), made
    )


TX = StreamSpec.model_validate(
    {
        "format": "json",
        "id": "transaction_id",
        "event_time": {"field": "event_time", "unit": "ms"},
        "fields": {
            "transaction_id": "string",
            "account_id": "string",
            "merchant_id": "string",
            "amount_cents": "integer",
            "event_time": "integer",
            "payment_type": "string",
        },
    }
)
FEW = st.sampled_from(["1", "2"])
PAYMENT = st.tuples(
    FEW, FEW, st.sampled_from([100, 40_000, 90_000]), st.sampled_from([0, 1, 400, 2_000, 9_000, -3_000]), FEW
)


@some
@given(st.data(), st.lists(PAYMENT, max_size=80), st.sampled_from([1, 3, 10]), st.integers(1, 3))
def test_five_velocity_rules_over_three_key_spaces(
    data: st.DataObject, drawn: list[tuple[str, str, int, int, str]], less: int, shards: int
) -> None:
    """The rules that are measured; counts are held against lower lines, so that a few records reach them."""
    made, at_ms = [], START_MS
    for number, (account, merchant, cents, step_ms, kind) in enumerate(drawn):
        at_ms += max(0, step_ms)
        fields = {"account_id": account, "merchant_id": merchant, "amount_cents": cents}
        times = {"event_time": at_ms + min(0, step_ms), "payment_type": "CSH" if kind == "1" else "POS"}
        made.append({"transaction_id": f"t{number}", **fields, **times})
    low = [
        {**rule, "aggregation_threshold": max(1, rule["aggregation_threshold"] // less)}
        if rule["aggregation_type"] == "count"
        else rule
        for rule in R5
    ]
    bodies = weighted([*low], [{"action": "review", "score": 30}, {"action": "block"}, {"score": 20}], 0)
    plain = [{"_id": each["transaction_id"], "_ingest_ms": each["event_time"], "_wire": each} for each in made]
    check(data, snapshot_of({STREAM: TX}, bodies, PLAIN, shards), plain)
