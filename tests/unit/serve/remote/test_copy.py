"""A checkpoint on a store, as the copy of it stands at any moment: a batch is there with all that it needs, or not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serve.replica.conftest import BURST, Asks, rules_of, snapshot_of

from crossline.basics.errors import StateError
from crossline.evaluate.shard import ShardState
from crossline.io.feed.files import batches_in
from crossline.io.objects.file_stores import LocalFiles, StoreUnavailableError
from crossline.runtime.snapshot.checkpoint_mirror import INLINE_BYTES, PARTS, CheckpointMirror
from crossline.runtime.snapshot.snapshot import SnapshotFile
from crossline.runtime.snapshot.spark_log import committed, last_committed
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log import state_log
from crossline.runtime.state_log.followed_state import FollowedState
from crossline.serve.remote.checkpoint_copy import LOGS_KEPT, CheckpointCopy
from crossline.serve.replica.pending_records import BatchEnds
from crossline.serve.replica.setup import sources_of

from .stored import PLANNED_MS, StoredPipeline

SEED = 20_261_124
OTHER = {**BURST, "rule_id": "slow_burst", "aggregation_threshold": 5, "window": "600s", "aggregation_type": "sum"}
OTHER["aggregation_field"] = "amount"


class Away(LocalFiles):
    """Does not answer from call number ``fails_at`` on, for ``fails`` calls."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls, self.fails_at, self.fails = 0, -1, 1

    def _asked(self) -> None:
        self.calls += 1
        if self.fails_at <= self.calls < self.fails_at + self.fails and self.fails_at >= 0:
            raise StoreUnavailableError("away")

    def get(self, name: str) -> bytes:
        self._asked()
        return super().get(name)

    def names(self, folder: str = "") -> list[str]:
        self._asked()
        return super().names(folder)

    def below(self, folder: str) -> list[str]:
        self._asked()
        return super().below(folder)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    caching._CACHE.clear()
    yield
    caching._CACHE.clear()


@pytest.fixture
def stored(tmp_path: Path) -> StoredPipeline:
    store = LocalFiles(tmp_path / "store")
    return StoredPipeline(tmp_path / "driver", store, str(tmp_path / "store" / "state"), snapshot_of(BURST))


def copy_of(stored: StoredPipeline, folder: Path, store: LocalFiles | None = None) -> CheckpointCopy:
    folder.mkdir(exist_ok=True)
    return CheckpointCopy(store or stored.store, folder, "s3://bank/checkpoint")


def state_at(root: Path, snapshot_in: Path, batch: int) -> dict[int, ShardState]:
    followed = FollowedState(str(root))
    followed.advance(SnapshotFile(str(snapshot_in / "snapshot.json")).current(), batch)
    assert followed.batch == batch
    assert not followed.anew
    return followed.states


def sizes(states: dict[int, ShardState]) -> dict[int, dict[str, int]]:
    return {depth: {name: store.records for name, store in each.stores.items()} for depth, each in states.items()}


def test_a_batch_is_there_once_it_is_done_and_with_all_that_it_needs(stored: StoredPipeline, tmp_path: Path) -> None:
    asks, here = Asks(), tmp_path / "here"
    copy = copy_of(stored, here)
    assert copy.look()
    assert (copy.batch, last_committed(str(here))) == (-1, -1)
    stored.batch([each.raw for each in asks.records(3)], done=False)
    assert copy.look()
    assert copy.planned == 0, "it has begun, which says how far behind the copy is"
    assert (here / "spark" / "offsets" / "0").exists()
    assert last_committed(str(here)) == -1
    stored.finish()
    assert copy.look()
    assert last_committed(str(here)) == 0, "though Spark's own note of it is on the store with the next batch only"
    assert batches_in(here / "feed") == [0]
    mine = sizes(state_at(here / "state", here, 0))
    assert mine == sizes(state_at(tmp_path / "store" / "state", here, 0))
    assert sum(mine[1].values()) >= 3
    assert BatchEnds(str(here), sources_of(str(here))).of(0) == {"payments": {}}
    assert (here / "spark" / "commits" / "0").stat().st_mtime * 1e3 == pytest.approx(PLANNED_MS + 5)


def test_whatever_moment_the_store_is_away_the_copy_is_whole(stored: StoredPipeline, tmp_path: Path) -> None:
    draw, asks, here = random.Random(SEED), Asks(), tmp_path / "here"
    away = Away(tmp_path / "store")
    copy = copy_of(stored, here, away)
    failures = 0

    def look() -> None:
        nonlocal failures
        away.fails_at, away.fails = away.calls + draw.randrange(1, 12), draw.randrange(1, 4)
        try:
            copy.look()
        except StoreUnavailableError:
            failures += 1

    for step in range(60):
        if step % 20 == 19:
            stored.pipeline.rules(rules_of(*([BURST, OTHER] if step % 40 == 19 else [BURST])))
        stored.batch([each.raw for each in asks.records(draw.randrange(4))], done=False)
        if draw.random() < 0.5:
            look()
        stored.finish()
        if draw.random() < 0.8:
            look()
        batch = last_committed(str(here))
        assert batch == copy.batch
        assert all(each <= batch for each in batches_in(here / "feed")) or batch < 0
        if batch >= 0 and step % 5 == 0:
            mine = sizes(state_at(here / "state", here, batch))
            assert mine == sizes(state_at(tmp_path / "store" / "state", here, batch))
    away.fails_at = -1
    assert copy.look()
    assert failures > 10
    assert copy.batch == stored.pipeline.batches - 1
    assert all(committed(str(here), each) for each in range(copy.batch - 20, copy.batch + 1))


def test_merged_and_dropped_segments_come_and_go(
    stored: StoredPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "MERGE_AT", 8)
    monkeypatch.setattr(caching, "MERGE_COUNT", 4)
    monkeypatch.setattr(state_log, "MERGE_AT", 8)
    monkeypatch.setattr(state_log, "MERGE_COUNT", 4)
    asks, here = Asks(), tmp_path / "here"
    copy = copy_of(stored, here)
    for batch in range(LOGS_KEPT + 60):
        stored.batch([each.raw for each in asks.records(2)])
        if batch % 7 == 0:
            assert copy.look()
            assert copy.batch == batch
    assert copy.look()
    theirs = {p.name for p in (tmp_path / "store" / "state" / "shard-00000").glob("*.seg")}
    mine = {p.name for p in (here / "state" / "shard-00000").glob("*.seg")}
    assert any(len(set(name[:-4].split("-"))) == 2 for name in theirs), "some were merged"
    assert len(mine) < len(theirs) + 40, "what went there goes here"
    assert sizes(state_at(here / "state", here, copy.batch)) == sizes(
        state_at(tmp_path / "store" / "state", here, copy.batch)
    )
    commits = [int(p.name) for p in (here / "spark" / "commits").iterdir()]
    assert (max(commits), len(commits)) == (copy.batch, LOGS_KEPT)


def test_one_that_begins_late_has_the_last_batches_alone(stored: StoredPipeline, tmp_path: Path) -> None:
    asks = Asks()
    for _ in range(70):
        stored.batch([each.raw for each in asks.records(1)])
    copy = copy_of(stored, tmp_path / "here")
    assert copy.look()
    assert copy.batch == 69
    assert batches_in(tmp_path / "here" / "feed") == list(range(6, 70))
    assert last_committed(str(tmp_path / "here")) == 69


def test_one_that_was_away_long_goes_on_with_what_there_is(stored: StoredPipeline, tmp_path: Path) -> None:
    asks, here = Asks(), tmp_path / "here"
    stored.batch([each.raw for each in asks.records(1)])
    copy = copy_of(stored, here)
    assert copy.look()
    for _ in range(8):
        stored.batch([each.raw for each in asks.records(1)])
    for number in range(6):  # these are kept no more
        stored.store.delete(f"feed/{number}.jsonl")
    assert copy.look()
    assert copy.batch == 8
    assert batches_in(here / "feed") == [0, 6, 7, 8]
    assert sizes(state_at(here / "state", here, 8)) == sizes(state_at(tmp_path / "store" / "state", here, 8))


@pytest.mark.parametrize("how", ["anew", "further"])
def test_a_checkpoint_that_is_another_one_is_seen(stored: StoredPipeline, tmp_path: Path, how: str) -> None:
    asks, here = Asks(), tmp_path / "here"
    for _ in range(3):
        stored.batch([each.raw for each in asks.records(1)])
    copy = copy_of(stored, here)
    assert copy.look()
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(StateError, match="no pipeline has run on it yet"):
        copy.look()
    assert copy.batch == 2
    caching._CACHE.clear()
    more = (snapshot_of(BURST), 1 if how == "anew" else 7, "q2")
    other = StoredPipeline(tmp_path / "other", stored.store, str(tmp_path / "store" / "state"), *more)
    for _ in range(1 if how == "anew" else 5):
        other.batch([each.raw for each in asks.records(4)])
    assert not copy.look()
    copy.anew()
    assert last_committed(str(here)) == -1
    copy.restart()
    assert copy.look()
    assert copy.batch == (0 if how == "anew" else 4)
    theirs = sizes(state_at(tmp_path / "store" / "state", here, copy.batch))
    assert sizes(state_at(here / "state", here, copy.batch)) == theirs


def test_one_that_looks_while_the_pipeline_begins_takes_it_for_the_same(tmp_path: Path) -> None:
    """Spark's query has its id a moment after the checkpoint is there."""
    store = LocalFiles(tmp_path / "store")
    (tmp_path / "driver").mkdir()
    CheckpointMirror(store, tmp_path / "driver", "the store").restore(1)
    (tmp_path / "here").mkdir()
    copy = CheckpointCopy(store, tmp_path / "here", "s3://bank/checkpoint")
    assert copy.look()
    stored = StoredPipeline(tmp_path / "driver", store, str(tmp_path / "store" / "state"), snapshot_of(BURST), 2)
    assert copy.look()
    stored.batch([])
    assert copy.look()
    assert copy.batch == 0


def test_a_note_that_is_damaged_for_good_is_reported(stored: StoredPipeline, tmp_path: Path) -> None:
    stored.batch([])
    copy = copy_of(stored, tmp_path / "here")
    assert copy.look()
    (stored.folder / "sources" / "payments").mkdir(parents=True)
    (stored.folder / "sources" / "payments" / "chunks.jsonl").write_bytes(b"x" * (2 * INLINE_BYTES))
    stored.batch([], done=False)
    for part in stored.store.names(PARTS):
        stored.store.delete(f"{PARTS}/{part}")
    with pytest.raises(StateError, match="missing; restore it from a copy"):
        copy.look()
    assert last_committed(str(tmp_path / "here")) == 0, "what was there stays"


def test_nothing_is_written_to_the_store(stored: StoredPipeline, tmp_path: Path) -> None:
    asks = Asks()
    for _ in range(3):
        stored.batch([each.raw for each in asks.records(1)])
    before = {str(p): p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()}
    for folder in (tmp_path / "store").rglob("*"):
        folder.chmod(0o500 if folder.is_dir() else 0o400)
    copy = copy_of(stored, tmp_path / "here")
    assert copy.look()
    assert copy.batch == 2
    assert {str(p): p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()} == before
    for folder in (tmp_path / "store").rglob("*"):
        folder.chmod(0o700)
