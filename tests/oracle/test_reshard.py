"""A checkpoint that is resharded at any batch boundary gives the same output as without that.

The checkpoint is a real one, on disk, led as in ``living``; the twin is a life that nothing happens to.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec
from crossline.basics.errors import StateError
from crossline.rules.base import Defaults
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.snapshot.snapshot import StaticSnapshot
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.stages import in_one, stages_of
from crossline.runtime.state_log import reshard as resharding
from crossline.runtime.state_log.reshard import BEGUN, WHOLE, reshard, settle
from crossline.runtime.work.task import Task
from drawing import one_of_these

from .composed_strategies import composed_sets
from .fastpath import stream_spec
from .living import BatchOutput, Feed, Life
from .logged import LoggedJudge, decided
from .strategies import STREAM, Body, Record, records, rule_sets, wire_record
from .test_contexts import RULE as WAITING
from .test_corrections import BUSY, IN_PANES, disordered, reevaluated
from .test_corrections_keys import BUSY as OF_KEYS
from .test_decisions import POLICIES, WEIGHTS, deciding, weighted
from .test_detect_equals_naive import DEEP, many
from .test_publications import COUNT, _publication, _record
from .test_revisions import LARGE
from .test_risk import RISKY, scored
from .test_runners import judged_of, split
from .test_stream_join import OTHER, draw_joined, join_sets, other_spec

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
    kind = draw(one_of_these("any", "hits", "again", "panes", "met", "waiting", "risk"))
    if kind == "met":
        return draw(join_sets(several=draw(st.booleans()))), draw(draw_joined(ingest_column=True))[0]
    if kind == "waiting":
        return [WAITING], draw(draw_joined(ingest_column=True))[0]
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
            life.side_input()
            life.between()
            continue
        size, pieces, stopped = what
        where, shards = stopped if stops and stopped else ("", 0)
        life.take_in(made[at : at + size], pieces)
        at += size
        chunks = life.plan_batch()
        if where == "planned":
            stop(life, shards)
        reported = life.judge(chunks)
        if where == "judged":
            stop(life, shards)
            assert plain(life.judge(chunks)) == plain(reported)
        life.deliver(reported)
        if where == "delivered":
            stop(life, shards)
            assert plain(life.judge(chunks)) == plain(reported)
            life.deliver(([], [], []))
        life.commit()
        life.between()
        if where == "between":
            stop(life, shards)


def plain(body: BatchOutput) -> list[list[str]]:
    """Alerts whole, but for when they were detected; where duplicates and late records stand."""
    alerts = [{name: value for name, value in alert.items() if name != "detected_at"} for alert in body[0]]
    return [sorted(map(repr, each)) for each in (alerts, *body[1:])]


@settings(many, max_examples=1500 if DEEP else 3)
@given(st.data(), cases(), st.integers(1, 3))
def test_any_stream_cut_anywhere_reports_the_same(
    data: st.DataObject, case: tuple[list[Body], list[Record]], shards: int
) -> None:
    rules, made = case
    ops = data.draw(happenings(len(made)))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        whole, cut = begun(Path(folder), rules, shards), begun(Path(other), rules, shards)
        lead(whole, ops, made, stops=False)
        lead(cut, ops, made, stops=True)
    reported, found = ((life.alerts, life.duplicates, life.late) for life in (whole, cut))
    assert plain(found) == plain(reported)


COOLING: Body = {**COUNT, "rule_id": "cooling", "window": "5s", "cooldown": "6s"}
LATER: Body = {**COUNT, "rule_id": "later", "group_by": "device", "window": "20s"}
ABSENT: Body = {
    "rule_id": "absent",
    "version": 1,
    "rule_type": "absence",
    "source_topic": STREAM,
    "group_by": "account",
    "after": [{"field": "device", "operator": "==", "value": 1}],
    "expect": [{"field": "device", "operator": "==", "value": 2}],
    "within": "3s",
    "cooldown": "4s",
}
BOTH: Body = {**WAITING, "rule_id": "both", "rule_type": "composite", "any_of": ["cooling", "absent"]}
BOTH = {name: BOTH[name] for name in ("rule_id", "version", "rule_type", "any_of")}
BOTH |= {"at_least": 2, "join_key": "account", "window": "9s"}


def mixed(seed: int, count: int) -> list[Record]:
    """Two streams of few keys, some records of each out of order."""
    draw, made, at_s = random.Random(seed), list[Record](), 0.0
    for number in range(count):
        at_s += draw.choice([0, 0.5, 1, 1])
        account = {"account": f"a{draw.randrange(4)}"}
        if draw.random() < 0.3:
            account = {"owner": account["account"], "_stream": OTHER}
        fields = {"device": draw.choice([1, 2]), "amount": draw.choice([1, 2, 3]), "kind": "POS", "price": 0.5}
        late_s = draw.choice([0, 0, 0, 1, 3])
        made.append({**_record(number, at_s - late_s, at_s), **fields, **account})
    return made


@pytest.mark.parametrize("seed", range(20 if DEEP else 1))
def test_states_of_all_kinds_between_any_two_batches(tmp_path: Path, seed: int) -> None:
    """Each batch is judged in another number of shards; a rule comes on the way, with its past."""
    again = [reevaluated(body, number) for number, body in enumerate([*BUSY[:6], *OF_KEYS[:2]])]
    panes = [{**body, "rule_id": f"p{n}", "version": 1} for n, body in enumerate((IN_PANES, FIGURES))]
    rules = [COOLING, ABSENT, BOTH, WAITING, RISKY, *scored(panes), *again]
    made = mixed(seed, 32)
    ops: list[Op] = [("batch", (4, 1, (STOPPED[n % 4 + 1], (2, 3, 1, 4)[n % 4]))) for n in range(8)]
    ops.insert(4, ("publish", LATER))
    lives = [begun(tmp_path / str(stops), rules, 2) for stops in (False, True)]
    for stops, life in enumerate(lives):
        lead(life, ops, made, stops=bool(stops))
    reported, found = (plain((life.alerts, life.duplicates, life.late)) for life in lives)
    assert found == reported
    alerting = {alert["rule_id"] for alert in lives[0].alerts}
    assert alerting >= {"cooling", "absent", "both", "off", "risky", "later", "p0", "p1"}, "not tested"


@settings(many, max_examples=300 if DEEP else 2)
@given(
    st.lists(st.sampled_from(BUSY) | st.sampled_from(OF_KEYS), min_size=1, max_size=2),
    st.lists(WEIGHTS, min_size=1, max_size=3),
    POLICIES,
    disordered(20),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_decisions_are_revised_as_without(
    bodies: list[Body], weights: list[Body], policy: Body, made: list[Record], numbers: list[int]
) -> None:
    """What was decided by lies in the shards of ids."""
    rules = weighted([*(reevaluated(body, number) for number, body in enumerate(bodies)), LARGE], weights, 0)
    made.sort(key=lambda record: record["_ingest_ms"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 1)
        judged = deciding(judged_of(rules, paths, ingest_column=True), policy)
        whole = decided(judged, folder, 1, 300, MemoryJudge)
        assert whole == resharded_between(judged, folder, numbers)


def resharded_between(judged: BacktestSpec, folder: Path, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """All decisions, each batch judged in another number of shards than the one before."""
    (folder / "spark" / "commits").mkdir(parents=True)
    (folder / "snapshot.json").write_bytes(judged.snapshot(judged.rules, 2).to_json())
    found: list[dict[str, Any]] = []
    with mock.patch.object(in_process, "BATCH_BYTES", 300):
        inputs = in_process.Inputs.of(judged.history.files(), folder, 1)
        for number, dealt in enumerate(inputs.batches(1)):
            source = StaticSnapshot((folder / "snapshot.json").read_bytes())
            stages = stages_of(source, inputs.intake, LoggedJudge(source, folder / "state"))
            rows = in_one(stages, Task(batch_id=number), iter(dealt[0]))
            pairs = (zip(b.column("kind").to_pylist(), b.column("body").to_pylist(), strict=True) for b in rows)
            found += collect_outcome([each for pair in pairs for each in pair], None).decisions
            (folder / "spark" / "commits" / str(number)).touch()
            reshard(folder, "payments", numbers[number % len(numbers)])
    return [{name: value for name, value in each.items() if name != "decided_at"} for each in found]


class KilledError(Exception):
    """As SIGKILL, at some step."""


def lived(folder: Path, records_: int = 12) -> Life:
    """A pipeline of three shards, stopped with a batch that is judged and not delivered."""
    life = begun(folder, [{**COUNT, "rule_id": "r0", "window": "60s"}], 3)
    made = [{**_record(n, n), "account": f"a{n % 5}"} for n in range(records_)]
    lead(life, [("batch", (1, 1, None))] * (records_ - 1), made, stops=False)
    life.take_in(made[-1:], 1)
    life.judge(life.plan_batch())
    return life


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def go_on(life: Life) -> list[Any]:
    """The output of the batch that was not finished."""
    life.start()
    alerts, _, _ = life.judge([(STREAM, life.batches)])
    return [(alert["record_id"], alert["key"], alert["value"]) for alert in alerts]


@pytest.mark.parametrize("moves", range(4))
def test_killed_once_it_is_whole_it_is_finished_by_who_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """Each of the renames that put the new log in its place may be the last one that is done."""
    life = lived(tmp_path)
    done, move = list[Path](), resharding._move

    def dying(source: Path, target: Path) -> None:
        if len(done) == moves:
            raise KilledError
        move(source, target)
        done.append(target)

    def removing(path: Path, **_: bool) -> None:
        if path.name == WHOLE:
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(resharding, "_move", dying)
        patch.setattr(shutil, "rmtree", removing)
        with pytest.raises(KilledError):
            reshard(tmp_path, "payments", 5)
    assert settle(tmp_path), "a pipeline that starts does it"
    assert not settle(tmp_path)
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint({BEGUN, WHOLE})
    assert len(list((tmp_path / "state").glob("shard-*"))) == 5
    life.shards = 5
    assert go_on(life) == [("t11", {"account": "a1"}, 3)]


def test_killed_before_that_it_never_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = lived(tmp_path)
    before = bytes_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            reshard(tmp_path, "payments", 5)
    assert (tmp_path / BEGUN).is_dir()
    assert not settle(tmp_path)
    assert bytes_of(tmp_path) == before
    assert go_on(life) == [("t11", {"account": "a1"}, 3)]
    assert reshard(tmp_path, "payments", 5).before == 3


def test_a_level_whose_first_batch_is_not_finished(tmp_path: Path) -> None:
    """Its log has nothing yet that counts."""
    counting = {**COUNT, "rule_id": "r0", "window": "60s"}
    life = begun(tmp_path, [counting], 3)
    made = [{**_record(n, n), "account": "a1"} for n in range(4)]
    reader = {**counting, "rule_id": "above", "source_topic": "rule:r0", "aggregation_threshold": 2}
    lead(life, [("batch", (2, 1, None)), ("publish", reader), ("batch", (2, 1, ("judged", 2)))], made, stops=True)
    assert [(a["record_id"], a["value"]) for a in life.alerts if a["rule_id"] == "above"] == [("t3", 2)]


def test_a_log_that_is_damaged_stays_as_it_is(tmp_path: Path) -> None:
    lived(tmp_path)
    (tmp_path / "state" / "shard-00001" / "000000000004-000000000004.seg").unlink()
    before = bytes_of(tmp_path)
    with pytest.raises(StateError, match="state of batch 4 is missing"):
        reshard(tmp_path, "payments", 5)
    assert bytes_of(tmp_path) == before
