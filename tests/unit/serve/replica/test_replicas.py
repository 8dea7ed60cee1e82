"""Replicas in processes: what they say, and what they do where something breaks."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop
from tests.oracle.replicated import Pipeline, comparable

from crossline.basics.errors import StateError, UsageError
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.followed_state import FollowedState
from crossline.serve.app.compose import replicas_of
from crossline.serve.decisions.values import LogPosition, NotJudgedError, RecordVerdict
from crossline.serve.replica.answers import ReplicaLimits
from crossline.serve.replica.replicas import Replicas

from .conftest import BURST, Asks, lines, ready, rules_of, snapshot_of


def run(pipeline: Pipeline, play: Callable[[Replicas], Awaitable[None]], **more: Any) -> None:
    async def whole() -> None:
        replicas = Replicas(str(pipeline.folder), **more)
        await replicas.start()
        try:
            await asyncio.wait_for(play(replicas), 90)
        finally:
            await replicas.close()

    uvloop.run(whole())  # as the API does


def decisions(found: list[RecordVerdict | NotJudgedError]) -> list[Any]:
    return [comparable(each.decision) if isinstance(each, RecordVerdict) else str(each) for each in found]


SUM = {**BURST, "rule_id": "spent", "aggregation_type": "sum", "aggregation_field": "amount"}


def test_a_sum_beyond_64_bits_is_a_figure_that_can_be_answered(pipeline: Pipeline) -> None:
    pipeline.rules(rules_of({**SUM, "aggregation_threshold": 2e19}))
    asks = Asks()
    pipeline.batch(lines(asks.records(1, "other")))
    huge = [asks.record(amount=9_000_000_000_000_000_000) for _ in range(3)]

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        found = await replicas.judge(huge)
        figures = [each.figures for each in found if isinstance(each, RecordVerdict)]
        assert [len(each) for each in figures] == [0, 0, 1]
        assert orjson.loads(orjson.dumps(figures[2]))["spent"]["value"] == 2.7e19
        assert decisions(found) == [comparable(each) for each in pipeline.batch(lines(huge))]

    run(pipeline, play)


def test_what_is_asked_counts_for_what_is_asked_later_and_is_what_the_pipeline_decides(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))
    later = asks.records(5)

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        texts = [await replicas.judge([each]) for each in later]
        first = texts[0][0]
        assert isinstance(first, RecordVerdict)
        assert first.as_of.batch == 0
        assert [each.as_of.laid_over for found in texts for each in found if isinstance(each, RecordVerdict)] == [
            1,
            2,
            3,
            4,
            5,
        ]
        assert [each.decision["decision"] for found in texts for each in found if isinstance(each, RecordVerdict)] == [
            "allow",
            "review",
            "review",
            "review",
            "review",
        ]
        third = texts[1][0]
        assert isinstance(third, RecordVerdict)
        assert third.figures["burst"]["value"] == 3
        assert third.evidence["burst"] == {"record_ids": ["t1", "t2", "t3"], "count": 3}
        basis = replicas.basis(third.basis)
        assert basis.rules_digest == third.decision["rules_digest"]
        assert [(each["rule_id"], each["version"]) for each in basis.rules] == [("burst", 1)]
        decided = pipeline.batch(lines(later))
        assert [each for found in texts for each in decisions(found)] == [comparable(each) for each in decided]

    run(pipeline, play)


def test_a_dry_run_leaves_nothing_and_a_known_record_is_not_judged_again(pipeline: Pipeline) -> None:
    asks = Asks()
    before = asks.records(1)
    pipeline.batch(lines(before))

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        dry = await replicas.judge(asks.records(3), keep=False)
        assert [each.decision["decision"] for each in dry if isinstance(each, RecordVerdict)] == [
            "allow",
            "review",
            "review",
        ]
        kept = await replicas.judge(asks.records(2))
        assert [each.decision["decision"] for each in kept if isinstance(each, RecordVerdict)] == ["allow", "review"]
        (again,) = await replicas.judge(before)
        assert isinstance(again, NotJudgedError)
        assert str(again).startswith("record: known already")

    run(pipeline, play)


def test_batches_take_over_what_was_laid_over(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch([])

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        at, chunks = 0, []
        for batch in range(1, 5):
            asked = asks.records(3)
            found = decisions([each for one in asked for each in await replicas.judge([one])])
            chunks.append((at, at + sum(len(each.raw) + 1 for each in asked)))
            for each in asked:
                replicas.placed(each.number, LogPosition("f.jsonl", at))
                at += len(each.raw) + 1
            decided = pipeline.batch(lines(asked), commit=False)
            listed(pipeline, chunks)
            pipeline.commit()
            assert found == [comparable(each) for each in decided]
            await ready(replicas, batch)
        (last,) = await replicas.judge([asks.record()])
        assert isinstance(last, RecordVerdict)
        assert last.as_of.laid_over == 1, "what batches have is laid over no more"
        assert len(replicas._waiting) <= 4

    run(pipeline, play)


def listed(pipeline: Pipeline, chunks: list[tuple[int, int]]) -> None:
    """The list of chunks that the pipeline's source has."""
    folder = pipeline.folder / "sources" / "payments"
    folder.mkdir(parents=True, exist_ok=True)
    begin = '{"file": 0, "name": "/in/f.jsonl", "path": "/in/f.jsonl", "device": 1, "inode": 1}\n'
    each = [
        f'{{"sequence": {n}, "file": 0, "start": {a}, "end": {b}, "tail": "", "listed_ms": 0}}\n'
        for n, (a, b) in enumerate([(0, 0), *chunks])
    ]
    (folder / "chunks.jsonl").write_text(begin + "".join(each[1:]))


def forks(replicas: Replicas) -> list[int]:
    return [each.pid for each in replicas._forks.values()]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_fork_that_dies_or_freezes_loses_no_request(pipeline: Pipeline, how: int) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))
    later = asks.records(4)

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        found = await replicas.judge(later[:2])
        (pid,) = forks(replicas)
        os.kill(pid, how)
        found += await replicas.judge(later[2:])
        assert forks(replicas) != [pid]
        assert decisions(found) == [comparable(each) for each in pipeline.batch(lines(later))]

    run(pipeline, play, bounds=ReplicaLimits(call_max_s=0.5, ready_max_s=30))


def test_a_follower_that_is_killed_is_started_again_and_its_fork_answers_meanwhile(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))
    later = asks.records(4)

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        found = await replicas.judge(later[:1])
        (pid,) = replicas._followers.pids()
        os.kill(pid, signal.SIGKILL)
        found += await replicas.judge(later[1:])
        assert decisions(found) == [comparable(each) for each in pipeline.batch(lines(later))]
        await ready(replicas, 1)
        assert replicas._followers.pids() not in ([], [pid])
        (last,) = await replicas.judge([asks.record()])
        assert isinstance(last, RecordVerdict)
        assert last.as_of.batch == 1

    run(pipeline, play)


def test_a_rule_that_is_published_holds_from_the_next_batch(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(2)))
    second = {**BURST, "rule_id": "pair", "aggregation_threshold": 2, "action": "block"}

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        pipeline.rules(rules_of(BURST, second))
        pipeline.batch(lines(asks.records(1)))
        await ready(replicas, 1)
        asked = asks.records(2)
        body = await replicas.judge(asked)
        assert decisions(body) == [comparable(each) for each in pipeline.batch(lines(asked))]
        assert isinstance(body[1], RecordVerdict)
        assert body[1].decision["decision"] == "block"

    run(pipeline, play)


def test_who_is_behind_says_so_and_an_idle_pipeline_is_not(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        assert replicas.lag() == (0, 0, True)
        assert [(each.ms, each.batch, each.ready) for each in replicas_of(replicas)] == [(0, 0, True)]
        pipeline.batch(lines(asks.records(1)), commit=False)
        planned = pipeline.folder / "spark" / "offsets" / "1"
        os.utime(planned, (planned.stat().st_mtime - 5, planned.stat().st_mtime - 5))
        with pytest.raises(NotJudgedError, match=r"replica: [45],\d{3} ms behind \(bound 1,000\)"):
            await replicas.judge([asks.record()])
        assert not replicas.lag().ready
        (late,) = replicas_of(replicas)
        assert late.ms is not None
        assert (late.ms > 4_000, late.ready) == (True, False)
        pipeline.commit()
        await ready(replicas, 1)
        (found,) = await replicas.judge([asks.record()])
        assert isinstance(found, RecordVerdict)
        assert found.as_of.laid_over == 2, "what came while it was behind is laid over too"

    run(pipeline, play)


def test_without_a_replica_no_request_waits_for_long(pipeline: Pipeline) -> None:
    """The first one waits for a while, and who comes later, since there was none for so long, not at all."""

    async def play(replicas: Replicas) -> None:
        asks = Asks()
        with pytest.raises(NotJudgedError, match="replica: no replica is ready"):
            await replicas.judge([asks.record()])
        for keep in (True, False):
            later = asyncio.ensure_future(replicas.judge([asks.record()], keep=keep))
            await asyncio.sleep(0)
            assert later.done(), "at once"
            assert isinstance(later.exception(), NotJudgedError)

    (pipeline.folder / "snapshot.json").unlink()
    run(pipeline, play, bounds=ReplicaLimits(ready_max_s=0.1))


def test_a_record_that_does_not_fit_says_why(pipeline: Pipeline) -> None:
    asks = Asks()

    async def play(replicas: Replicas) -> None:
        await ready(replicas, -1)
        odd, good = await replicas.judge([asks.record(amount="much"), asks.record()])
        assert isinstance(odd, NotJudgedError)
        assert odd.part == "record"
        assert "amount" in odd.why
        assert isinstance(good, RecordVerdict)

    run(pipeline, play)


def test_records_without_room_are_reported_and_no_fork_judges_without_them(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        assert len(await replicas.judge(asks.records(2))) == 2
        for expected in ("2 records wait for the pipeline", "2 records wait for the pipeline"):
            with pytest.raises(NotJudgedError, match=expected):
                await replicas.judge([asks.record()])
        replicas.dropped(2)
        with pytest.raises(NotJudgedError, match="not in a batch yet, and not laid over"):
            await replicas.judge([asks.record()])

    run(pipeline, play, bounds=ReplicaLimits(laid_max=2))


def test_two_followers_one_of_which_is_frozen(pipeline: Pipeline) -> None:
    asks = Asks()
    pipeline.batch(lines(asks.records(1)))

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 0)
        async with asyncio.timeout(60):
            while len(forks(replicas)) < 2:  # noqa: ASYNC110 - other processes say when
                await asyncio.sleep(0.01)
        os.kill(replicas._followers.pids()[0], signal.SIGSTOP)
        for batch in range(1, 4):
            asked = asks.records(2)
            found = await replicas.judge(asked)
            assert decisions(found) == [comparable(each) for each in pipeline.batch(lines(asked))]
            await ready(replicas, batch)

    run(pipeline, play, count=2)


def test_a_checkpoint_on_a_store_is_refused() -> None:
    with pytest.raises(UsageError, match="found a checkpoint on a store, expected a folder"):
        Replicas("s3://bucket/checkpoint")


def test_a_checkpoint_that_is_another_one_is_followed_anew(pipeline: Pipeline) -> None:
    asks = Asks()
    for _ in range(3):
        pipeline.batch(lines(asks.records(1)))

    async def play(replicas: Replicas) -> None:
        await ready(replicas, 2)
        await replicas.judge([asks.record()])
        for name in ("spark", "state"):
            shutil.rmtree(pipeline.folder / name)
        caching._CACHE.clear()
        anew = Pipeline(pipeline.folder, pipeline.snapshot)
        anew.batch(lines(asks.records(1)))
        async with asyncio.timeout(60):
            while replicas.lag().batch != 0:
                await replicas.judge([asks.record("other")], keep=False)
                await asyncio.sleep(0.01)

    run(pipeline, play)


def test_what_a_listing_says_may_be_gone(tmp_path: Path) -> None:
    """Merged, dropped and damaged beneath a follower: it reads anew, and says what is missing where nothing helps."""
    caching._CACHE.clear()
    pipeline, asks = Pipeline(tmp_path, snapshot_of(BURST)), Asks()
    following = FollowedState(str(tmp_path / "state"))
    for _ in range(3):
        pipeline.batch(lines(asks.records(2)))
    following.advance(pipeline.snapshot, 1)
    gone = tmp_path / "state" / "shard-00001" / "000000000002-000000000002.seg"
    raw = gone.read_bytes()
    gone.unlink()
    with pytest.raises(StateError, match="state of batch 2 is missing"):
        following.advance(pipeline.snapshot, 2)
    assert (following.batch, following.states) == (-1, {}), "nothing half read is judged on"
    gone.write_bytes(raw)
    following.advance(pipeline.snapshot, 2)
    assert following.batch == 2
