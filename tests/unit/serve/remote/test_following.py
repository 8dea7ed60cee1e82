"""Replicas over a checkpoint on a store: what they answer on, how far behind they are, what they do without it."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.replicated import comparable
from tests.unit.serve.replica.conftest import BURST, Asks, ready, snapshot_of

from crossline.io.objects.file_stores import LocalFiles
from crossline.runtime.state_log import cache as caching
from crossline.serve.decisions.values import NotJudgedError, RecordVerdict
from crossline.serve.feed.reader import FeedReader
from crossline.serve.remote.store_follower import StoreFollower
from crossline.serve.replica.answers import ReplicaLimits
from crossline.serve.replica.replicas import Replicas

from .stored import StoredPipeline
from .test_copy import Away

Play = Callable[[Replicas, StoreFollower], Awaitable[None]]


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    caching._CACHE.clear()
    yield
    caching._CACHE.clear()


@pytest.fixture
def stored(tmp_path: Path) -> StoredPipeline:
    store = LocalFiles(tmp_path / "store")
    return StoredPipeline(tmp_path / "driver", store, str(tmp_path / "store" / "state"), snapshot_of(BURST))


def over(store: LocalFiles, play: Play) -> None:
    async def whole() -> None:
        follower = StoreFollower("s3://bank/checkpoint", 0.02, store)
        await follower.start()
        replicas = Replicas(str(follower.folder), bounds=ReplicaLimits(unseen_ms=follower.unseen_ms))
        await replicas.start()
        try:
            await asyncio.wait_for(play(replicas, follower), 90)
        finally:
            await replicas.close()
            follower.close()
        assert not follower.folder.exists()

    asyncio.run(whole())


def decided(found: list[RecordVerdict | NotJudgedError]) -> list[Any]:
    return [comparable(each.decision) if isinstance(each, RecordVerdict) else str(each) for each in found]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - another thread makes it so
            await asyncio.sleep(0.01)


def test_what_a_replica_elsewhere_says_is_what_the_pipeline_decides(stored: StoredPipeline) -> None:
    asks = Asks()
    stored.batch([each.raw for each in asks.records(1)])

    async def play(replicas: Replicas, follower: StoreFollower) -> None:
        reader = FeedReader(follower.folder / "feed")
        for batch in range(4):
            await ready(replicas, batch)
            assert replicas.lag().ms < 1_000
            asked = asks.records(2)
            lines = [each for one in asked for each in decided(await replicas.judge([one]))]
            assert lines == [comparable(each) for each in stored.batch([each.raw for each in asked])]
        await ready(replicas, 4)
        await until(lambda: reader.last() == 4)
        await reader.close()

    over(stored.store, play)  # type: ignore[arg-type]


def test_a_batch_that_was_begun_is_what_a_replica_is_behind_by(stored: StoredPipeline) -> None:
    stored.batch([])

    async def play(replicas: Replicas, _: StoreFollower) -> None:
        await ready(replicas, 0)
        began_s = time.monotonic()
        stored.batch([], done=False)
        await until(lambda: not replicas.lag().ready)
        assert time.monotonic() - began_s >= 1.0
        with pytest.raises(NotJudgedError, match="ms behind"):
            await replicas.judge([Asks().record()])
        stored.finish()
        await ready(replicas, 1)

    over(stored.store, play)  # type: ignore[arg-type]


def test_a_store_that_is_away_is_reported_by_how_far_behind_the_replica_is(
    stored: StoredPipeline, tmp_path: Path
) -> None:
    stored.batch([])
    away, asks = Away(tmp_path / "store"), Asks()

    async def play(replicas: Replicas, _: StoreFollower) -> None:
        await ready(replicas, 0)
        away.fails_at, away.fails = 0, 1 << 60
        await until(lambda: not replicas.lag().ready)
        assert (replicas.lag().batch, replicas.lag().ms > 1_000) == (0, True)
        with pytest.raises(NotJudgedError, match="ms behind"):
            await replicas.judge([asks.record()])
        stored.batch([])
        away.fails_at = -1
        await ready(replicas, 1)
        (verdict,) = await replicas.judge([asks.record()])
        assert isinstance(verdict, RecordVerdict)

    over(away, play)


def test_one_that_begins_before_its_pipeline_is_ready_once_that_is(tmp_path: Path) -> None:
    store = LocalFiles(tmp_path / "store")

    async def play(replicas: Replicas, _: StoreFollower) -> None:
        assert replicas.lag().ready is False
        made = StoredPipeline(tmp_path / "driver", store, str(tmp_path / "store" / "state"), snapshot_of(BURST))
        made.batch([])
        await ready(replicas, 0)

    over(store, play)


def test_another_checkpoint_in_its_place_is_begun_anew(stored: StoredPipeline, tmp_path: Path) -> None:
    asks = Asks()
    for _ in range(3):
        stored.batch([each.raw for each in asks.records(2)])
    later = asks.record()

    async def play(replicas: Replicas, follower: StoreFollower) -> None:
        await ready(replicas, 2)
        (before,) = await replicas.judge([later], keep=False)
        assert isinstance(before, RecordVerdict)
        assert before.decision["decision"] == "review", "six in a minute"
        reader = FeedReader(follower.folder / "feed")
        assert reader.last() == 2
        shutil.rmtree(tmp_path / "store")
        caching._CACHE.clear()
        other = StoredPipeline(
            tmp_path / "other", stored.store, str(tmp_path / "store" / "state"), snapshot_of(BURST), 1, "q2"
        )
        other.batch([])
        await until(lambda: not replicas.lag().ready)
        await until(lambda: replicas.lag().ready and replicas.lag().batch == 0)
        (after,) = await replicas.judge([later], keep=False)
        assert isinstance(after, RecordVerdict)
        assert after.decision["decision"] == "allow", "the first that this checkpoint knows of"
        await until(lambda: reader.last() == 0)
        await reader.close()

    over(stored.store, play)  # type: ignore[arg-type]
