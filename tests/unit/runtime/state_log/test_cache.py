"""The worker's cache: whichever worker judges a batch, and however often, the answer is that of one that saw it all."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import StateError
from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.output import ShardOutput
from crossline.evaluate.shard import judge
from crossline.ingest.decode import decode_lines
from crossline.ingest.route.part_codec import pack, unpack
from crossline.ingest.route.partitioner import Chunk, route
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.state_log.followed_state import FollowedState
from crossline.runtime.state_log.state_log import StateLog
from crossline.state.memory import layout as at
from crossline.state.windows.memory_map import MemoryMap
from e2e.project import by_id, figures, from_twin
from e2e.snapshots import snapshot_of
from e2e.traffic import OF_RECORDS, STREAM, Record, expected, lines, records, velocity

SHARDS = 2
SHORT = [velocity("pair", threshold=2, window="2s", allowed_lateness="1s", watermark_delay="1s")]


class Workers:
    """Two Python workers over one log of segments; every batch goes through routing and judging as tasks do it."""

    def __init__(self, root: Path, snapshot: PlanSnapshot, monkeypatch: pytest.MonkeyPatch, held_max: int = 8) -> None:
        self.root, self.snapshot, self.patch = root, snapshot, monkeypatch
        self.cache = ShardCache(str(root), per_query=False, held_max=held_max)
        self.memories: list[Any] = [OrderedDict(), OrderedDict()]
        self.offset = 0
        self.read: list[int] = []  # batches of the log, by task
        self.alerts: dict[int, list[dict[str, Any]]] = {}

    def parts(self, batch: int, data: bytes) -> list[tuple[int, bytes]]:
        decoded = decode_lines(self.snapshot.decoder(STREAM), data, "file", batch * 1_000_000)
        chunk = Chunk(STREAM, batch, "file")
        parts = route(self.snapshot.plan(STREAM), decoded.records, chunk, self.snapshot.shards, {})
        return [(part.shard, pack([part])) for part in parts]

    def task(self, worker: int, shard: int, batch: int, data: bytes, *, dies: bool = False) -> ShardOutput:
        """One task's attempt; one that ``dies`` does so after judging, before it writes."""
        self.patch.setattr(caching, "_CACHE", self.memories[worker])
        mine = [part for each, blob in self.parts(batch, data) if each == shard for part in unpack(blob, "test")]
        with self.cache.shard(self.snapshot, "query", shard, batch) as held:
            self.read.append(held.read)
            output = judge(self.snapshot.plans(), held.state, mine, self.snapshot.bounds)
            if not dies:
                held.commit(output.deltas, [])
        return output

    def batch(self, batch: int, data: bytes, workers: Sequence[int]) -> None:
        outputs = [self.task(workers[shard], shard, batch, data) for shard in range(self.snapshot.shards)]
        alerts = [alert for output in outputs for alert in alerts_of(self.snapshot.plans(), output.hits, 0)]
        assert self.alerts.setdefault(batch, alerts) == alerts, f"batch {batch} run again gave other alerts"

    def forget(self, worker: int) -> None:
        """The worker is gone; another comes in its place."""
        self.memories[worker] = OrderedDict()

    def figures(self) -> dict[str, tuple[Any, ...]]:
        return figures(by_id(alert for alerts in self.alerts.values() for alert in alerts))


def batches_of(log: list[Record], seed: int) -> list[bytes]:
    draw = random.Random(seed)
    found, rest = [], list(log)
    while rest:
        size = draw.randint(1, 8)
        found.append(lines(rest[:size]))
        rest = rest[size:]
    return found


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return records(120, seed=11)


@pytest.fixture(scope="module")
def twin(log: list[Record]) -> dict[str, tuple[Any, ...]]:
    return from_twin(expected(OF_RECORDS, log))


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_take_turns_and_die_give_what_the_twin_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record], twin: Any, seed: int
) -> None:
    draw = random.Random(seed)
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    for number, data in enumerate(batches_of(log, seed)):
        fate = draw.random()
        if fate < 0.2:
            workers.forget(draw.randrange(2))
        elif fate < 0.4:
            workers.task(draw.randrange(2), draw.randrange(SHARDS), number, data, dies=True)
        workers.batch(number, data, draw.choices(range(2), k=SHARDS))
        if fate > 0.8:
            # The tasks were done, but the batch was not: Spark runs all of it again.
            workers.batch(number, data, draw.choices(range(2), k=SHARDS))
    assert workers.figures() == twin


def test_a_batch_run_again_writes_the_same_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record]
) -> None:
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    for number, data in enumerate(batches_of(log, 0)[:12]):
        workers.batch(number, data, [0, 0])
        first = {path.name: path.read_bytes() for path in tmp_path.glob(f"shard-*/{number:012d}-*.seg")}
        workers.batch(number, data, [1, 0])
        assert {path.name: path.read_bytes() for path in tmp_path.glob(f"shard-*/{number:012d}-*.seg")} == first


def test_a_state_that_is_not_committed_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(tmp_path, snapshot_of(SHORT, SHARDS), monkeypatch)
    workers.task(0, 0, 0, lines(records(5, seed=1)), dies=True)
    assert not workers.memories[0]


def test_a_worker_holds_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record]) -> None:
    workers = Workers(tmp_path, snapshot_of(SHORT, SHARDS), monkeypatch, held_max=1)
    for number, data in enumerate(batches_of(log, 0)[:4]):
        workers.batch(number, data, [0, 0])
        assert len(workers.memories[0]) == 1


def test_a_shard_that_is_asked_for_elsewhere_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record]
) -> None:
    """Shard 1 has its home with worker 1 from batch 4 on, and is judged by worker 0 once more, in batch 5."""
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    workers.cache = replace(workers.cache, used_within=3)
    judged_by = [0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1]
    held, read = [], []
    for number, (data, worker) in enumerate(zip(batches_of(log, 0), judged_by, strict=False)):
        workers.batch(number, data, [0, worker])
        read.append(workers.read[-1])
        for memory in workers.memories:
            monkeypatch.setattr(caching, "_CACHE", memory)
            workers.cache.drop_unused("query", number)
        held.append([sorted(shard for _, _, shard in memory) for memory in workers.memories])
    assert read == [0, 0, 0, 0, 4, 1, 1, 0, 0, 0, 0]
    assert held == [[[0, 1], []]] * 4 + [[[0, 1], [1]]] * 5 + [[[0], [1]]] * 2
    workers.cache.drop_unused("another query", 100, depth=2)
    assert list(workers.memories[1])


def test_old_segments_go_and_take_nothing_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 batches of a rule that looks back two seconds; workers die at each look for what can go."""
    log = records(400, seed=2)
    workers = Workers(tmp_path, snapshot_of(SHORT, SHARDS), monkeypatch)
    most = 0
    for number, record in enumerate(log):
        if number % caching.MERGE_EVERY == 0:
            workers.task(0, 0, number, lines([record]), dies=True)
            workers.forget(number // caching.MERGE_EVERY % 2)
        workers.batch(number, lines([record]), [number % 2, 0])
        most = max(most, len(list((tmp_path / "shard-00000").iterdir())))
    assert workers.figures() == from_twin(expected(SHORT, log))
    assert most < 2 * caching.MERGE_AT
    oldest = min(path.name for path in (tmp_path / "shard-00000").iterdir())
    assert int(oldest[:12]) > 200, "nothing was dropped: not tested"


def test_a_stream_that_begins_with_nothing_good_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(tmp_path, snapshot_of(SHORT, SHARDS), monkeypatch)
    log = records(60, seed=4)
    for number, data in enumerate([b"not a record\n", b"", *batches_of(log, 3)]):
        workers.batch(number, data, [number % 2, (number + 1) % 2])
        workers.forget(0)
    assert workers.figures() == from_twin(expected(SHORT, log))


@pytest.mark.parametrize("shards", [1, 3])
def test_another_number_of_shards_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    before = Workers(tmp_path, snapshot_of(SHORT, SHARDS), monkeypatch)
    before.batch(0, lines(records(5, seed=1)), [0, 0])
    after = Workers(tmp_path, snapshot_of(SHORT, shards), monkeypatch)
    with pytest.raises(StateError, match=f"kept in 2 shards, found a query of {shards}; go on with shards=2"):
        after.batch(1, b"", [0] * shards)


def test_a_table_is_filled_once_and_not_at_each_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state read from its log takes no longer with many segments; not foreseen, these would fill it ten times."""
    workers = Workers(tmp_path, snapshot_of([velocity("pair", threshold=2, window="9h")], 1), monkeypatch)
    log = records(2_000, seed=5)
    for number in range(40):
        workers.batch(number, lines(log[50 * number :][:50]), [0])
    filled = fillings_of_ids(monkeypatch)
    workers.batch(40, lines(records(10, seed=6)), [1])
    assert workers.read[-1] == 40
    assert len(filled) <= 3, filled


def test_whoever_follows_all_shards_fills_a_table_once_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(tmp_path, snapshot_of([velocity("pair", threshold=2, window="9h")], SHARDS), monkeypatch)
    log = records(2_000, seed=5)
    for number in range(40):
        workers.batch(number, lines(log[50 * number :][:50]), [0] * SHARDS)
    filled, following = fillings_of_ids(monkeypatch), FollowedState(str(tmp_path))
    following.advance(workers.snapshot, 39)
    assert sum(store.records for store in following.states[1].stores.values()) > 1_000
    assert len(filled) <= 3, filled


def fillings_of_ids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of tables of ids, each time that one is filled anew from now on."""
    filled: list[int] = []
    rebuild = MemoryMap.rebuild

    def counted(self: MemoryMap, table: int, size: int, *, fill: bool) -> None:
        filled.extend([size] * (table == at.ID_TABLE and fill))
        rebuild(self, table, size, fill=fill)

    monkeypatch.setattr(MemoryMap, "rebuild", counted)
    return filled


def test_a_state_read_ahead_serves_the_next_batch_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record], twin: Any
) -> None:
    """Read ahead by worker 1, where worker 0 has judged on: it catches up; of a batch that is run again, it is anew."""
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    batches = batches_of(log, 0)
    for number, data in enumerate(batches):
        if number in {5, 9, 13}:
            workers.forget(1)
            monkeypatch.setattr(caching, "_CACHE", workers.memories[1])
            for shard in range(SHARDS):
                ahead = {5: number, 9: number - 2, 13: number + 1}[number]  # in time, behind, and beyond what there is
                with suppress(StateError):
                    workers.cache.read_ahead(workers.snapshot, "query", shard, ahead)
        workers.batch(number, data, [int(number in {5, 9, 13})] * SHARDS)
        if number in {5, 9, 13}:
            assert workers.read[-SHARDS:] == [{5: 0, 9: 2, 13: 13}[number]] * SHARDS
    assert workers.figures() == twin


def test_what_was_read_ahead_and_is_not_asked_for_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record]
) -> None:
    """Shard 1 is judged by worker 0; worker 1 has read both, and keeps it for one batch, which may be under way."""
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    batches = batches_of(log, 0)
    for number in range(3):
        workers.batch(number, batches[number], [0, 0])
    monkeypatch.setattr(caching, "_CACHE", workers.memories[1])
    for shard in range(SHARDS):
        workers.cache.read_ahead(workers.snapshot, "query", shard, 3)
    for number, held in ((3, {0, 1}), (4, {0})):
        workers.batch(number, batches[number], [1, 0])
        monkeypatch.setattr(caching, "_CACHE", workers.memories[1])
        workers.cache.drop_unused("query", number)
        assert {shard for *_, shard in workers.memories[1]} == held
    workers.cache.read_ahead(workers.snapshot, "query", 1, 5)
    caching.forget_ahead()
    assert {shard for *_, shard in workers.memories[1]} == {0}


def test_a_log_is_read_ahead_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record], twin: Any
) -> None:
    """A batch that comes in between reads what is left; what follows is kept while it is asked for."""
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    batches = batches_of(log, 0)
    for number in range(8):
        workers.batch(number, batches[number], [0, 0])
    monkeypatch.setattr(caching, "_CACHE", workers.memories[1])
    for shard in range(SHARDS):
        for _ in range(4 + shard):  # a turn is one batch at least
            assert not workers.cache.read_ahead(workers.snapshot, "query", shard, 8, follows=True, until_s=0.0)
    caching.forget_ahead()
    workers.cache.drop_unused("query", 8)
    assert {shard for *_, shard in workers.memories[1]} == {0, 1}
    for number in range(8, len(batches)):
        workers.batch(number, batches[number], [1, 1])
        if number == 8:
            assert workers.read[-SHARDS:] == [4, 3]
    assert workers.figures() == twin


@pytest.mark.parametrize("seed", range(3))
def test_a_state_that_has_judged_follows_when_others_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record], twin: Any, seed: int
) -> None:
    """And has the batch before left to read, or nothing; what came of a batch that it judged is no later one's."""
    draw = random.Random(seed)
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    mine, judged = 0, [-1, -1]
    for number, data in enumerate(batches_of(log, seed)):
        mine = 1 - mine if number and draw.random() < 0.3 else mine
        workers.batch(number, data, [mine] * SHARDS)
        judged[mine] = number
        assert max(workers.read[-SHARDS:]) <= 1, number
        monkeypatch.setattr(caching, "_CACHE", workers.memories[1 - mine])
        for shard in range(SHARDS):
            assert workers.cache.read_ahead(workers.snapshot, "query", shard, number, follows=True)
            for batch in range(number + 1):
                answer = workers.cache.answer(workers.snapshot, "query", shard, batch)
                assert answer is None or batch == judged[1 - mine]
        if draw.random() < 0.2:
            again = draw.randrange(2)
            workers.batch(number, data, [again] * SHARDS)
            judged[again] = number
            if draw.random() < 0.5:
                workers.forget(1 - mine)
                monkeypatch.setattr(caching, "_CACHE", workers.memories[1 - mine])
                for shard in range(SHARDS):
                    workers.cache.read_ahead(workers.snapshot, "query", shard, number, follows=True)
    assert workers.figures() == twin


def test_what_was_merged_while_it_is_read_ahead_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[Record]
) -> None:
    workers = Workers(tmp_path, snapshot_of(OF_RECORDS, SHARDS), monkeypatch)
    for number, data in enumerate(batches_of(log, 0)[:6]):
        workers.batch(number, data, [0, 0])
    shard_log, opened = StateLog(str(tmp_path), 0), StateLog._open
    joined: list[str] = []

    def merged_meanwhile(self: StateLog, name: str) -> Any:
        if name.startswith("000000000002") and not joined:
            joined.append(name)
            shard_log._join(shard_log.segments()[1:4])
        return opened(self, name)

    monkeypatch.setattr(StateLog, "_open", merged_meanwhile)
    monkeypatch.setattr(caching, "_CACHE", workers.memories[1])
    assert workers.cache.read_ahead(workers.snapshot, "query", 0, 6)
    assert joined
    assert len(shard_log.segments()) == 4


def test_a_depth_that_had_no_batch_for_a_while_begins_anew_where_its_state_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules whose corrections revise decisions went, and others came: batches in between wrote nothing at depth 0."""
    snapshot = snapshot_of(SHORT, 1)
    cache = ShardCache(str(tmp_path), per_query=False, held_max=8)
    monkeypatch.setattr(caching, "_CACHE", OrderedDict())

    def judge_at(batch: int, depth: int) -> int:
        with cache.shard(snapshot, "query", 0, batch, depth) as held:
            held.commit([], [])
        return held.read

    for batch in range(9):
        for depth in (1, 0) if batch < 6 else (1,):
            judge_at(batch, depth)
    assert (judge_at(9, 1), judge_at(9, 0)) == (0, 0), "what is held of batch 5 is no start for batch 9"
    assert judge_at(10, 0) == 0, "and from then on it is held again"


def test_a_log_that_lacks_a_batch_stops_who_holds_an_older_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ShardCache(str(tmp_path), per_query=False, held_max=8)
    monkeypatch.setattr(caching, "_CACHE", OrderedDict())
    snapshot = snapshot_of(SHORT, 1)
    for batch in range(4):
        with cache.shard(snapshot, "query", 0, batch) as held:
            held.commit([], [])
    (segment,) = tmp_path.glob("shard-*/*0003-*.seg")
    segment.unlink()
    with pytest.raises(StateError, match="missing"), cache.shard(snapshot, "query", 0, 6) as held:
        held.commit([], [])
