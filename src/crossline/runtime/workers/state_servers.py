"""A task's shards, judged where their states are: by this machine's state servers, or here where it has none."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Self

from crossline.basics.errors import StateError
from crossline.runtime.machine.processors import processors
from crossline.runtime.snapshot.snapshot import SnapshotSource
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.state_log.read_ahead import ReadAhead
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.work.task import Task
from crossline.runtime.workers.state_server import StateServerFolder, state_server_folder

if TYPE_CHECKING:
    from crossline.io.kafka.transactions.decision_topic import DecisionTopic
    from crossline.runtime.state_log.cache import ShardCache

TRIES = 3

ShardParts = Mapping[int, Sequence[memoryview]]


@dataclass(frozen=True, slots=True)
class StateServerJudge:
    """Judges shards in Spark's tasks: by up to ``state_servers`` a machine.

    ``cache`` None: a batch job, whose state ends with it. ``topic``: where decisions on all records go; None: nowhere.
    ``standby_of``: by part, another one, whose task has its own executor follow the part (see ``assign_standbys``).
    ``elsewhere``: standbys are on other executors, also while none of them is there.
    """

    source: SnapshotSource
    cache: ShardCache | None
    state_servers: int
    topic: DecisionTopic | None = None
    standby_of: tuple[int, ...] = ()
    elsewhere: bool = False

    def __call__(self, task: Task, depth: int, given: ShardParts, watch: Stopwatch) -> Iterator[StageRows]:
        """What comes of each shard."""
        work = ShardJudge(self.source, self.cache, task.query_id, task.batch_id, depth, task.began_ms, self.topic)
        yield from judge_shards(work, given, self.state_servers, watch, here=not self.elsewhere)
        followed = {part for part, standby in enumerate(self.standby_of) if standby == task.partition}
        if followed and depth == 1:
            shards = range(self.source.current().shards)
            follow(work, [shard for shard in shards if shard % task.partitions in followed], self.state_servers)


def follow(work: ShardJudge, shards: Sequence[int], state_servers: int) -> None:
    """Have the state servers of this machine read ``shards``, which another executor judges, as of the batch before.

    Nobody waits for it: they read in turns between their requests.
    """
    where = state_server_folder()
    if where is not None:
        for number, ahead in _shares(work, shards, state_servers):
            where.read_ahead(number, ahead)


def read_now(work: ShardJudge, shards: Sequence[int], state_servers: int) -> None:
    """As ``follow``, and returns once they have read them."""
    where = state_server_folder()
    if where is None:
        return
    with ExitStack() as open_connections:
        reading = []
        for number, ahead in _shares(work, shards, state_servers):
            with suppress(OSError):
                reading.append(open_connections.enter_context(where.reading(number, ahead)))
        for connection in reading:
            connection.poll(None)  # it ends once all is read


def _shares(work: ShardJudge, shards: Sequence[int], state_servers: int) -> Iterator[tuple[int, ReadAhead]]:
    """What each state server of this machine reads of ``shards``."""
    if work.cache is None or not work.batch_id:
        return
    count = max(1, min(state_servers, processors()))
    for number in range(count):
        mine = tuple(shard for shard in shards if shard % count == number)
        if mine:
            yield number, ReadAhead(work.source, work.cache, work.query_id, work.batch_id, mine, follows=True)


def judge_shards(
    work: ShardJudge, given: ShardParts, state_servers: int, watch: Stopwatch, *, here: bool = True
) -> Iterator[StageRows]:
    """The rows of each shard of ``given``, which has the packed parts of each.

    Shard s is kept by state server s % ``state_servers``, of which there are no more than processors; several work side
    by side. ``here``: standbys, where there are to be any, are on this machine.
    """
    where = state_server_folder()
    if where is None or work.cache is None:
        for shard, blobs in given.items():
            yield work.shard(shard, blobs, watch)
        work.drop_unused()
        return
    count = max(1, min(state_servers, processors()))
    # One whose shards are all elsewhere now would never get a request again.
    lets_go = work.cache.used_within and work.batch_id % work.cache.used_within == 0
    watch.start()
    with ExitStack() as open_connections:
        requests = []
        for number in range(count):
            mine = {shard: blobs for shard, blobs in given.items() if shard % count == number}
            if mine or (lets_go and where.has(number)):
                requests.append(open_connections.enter_context(_ServerRequest(where, number, work, mine)))
        if where.lifeline is not None:
            where.announce()
        watch.lap("hand_over")
        for each in requests:
            rows, spent_ms = each.answer()
            watch.add(spent_ms)
            yield from rows
    if here and work.cache.standby and work.depth == 1 and work.batch_id > 0:
        # As of the batch before: this one may be run again.
        for number in range(count):
            shards = tuple(shard for shard in given if shard % count == number)
            if shards:
                where.follow(number, ReadAhead(work.source, work.cache, work.query_id, work.batch_id, shards))


@dataclass(slots=True)
class _ServerRequest:
    """A request to one state server to judge shards; a context that closes the connection."""

    where: StateServerFolder
    number: int
    work: ShardJudge
    given: ShardParts
    _connection: Connection | None = None

    def __enter__(self) -> Self:
        self._send_request()
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send_request(self) -> None:
        """Ask; a state server that dies meanwhile is met again, forked anew, when its answer is waited for."""
        self._connection = connection = self.where.connect(self.number)
        try:
            shards = [(shard, len(blobs)) for shard, blobs in self.given.items()]
            connection.send_bytes(pickle.dumps((self.work, shards)))
            for blobs in self.given.values():
                for blob in blobs:
                    connection.send_bytes(blob)
        except OSError:
            self.__exit__()

    def answer(self) -> tuple[list[StageRows], dict[str, float]]:
        """Rows of each shard, and the milliseconds that went into them.

        Raises:
            StateError: the state server dies each time.
            Exception: what was raised in the state server.
        """
        for _ in range(TRIES):
            if self._connection is not None:
                try:
                    rows, spent_ms, error = pickle.loads(self._connection.recv_bytes())  # noqa: S301 - our own process
                except (EOFError, OSError):
                    self.__exit__()
                else:
                    if error is not None:
                        raise error
                    return rows, spent_ms
            self._send_request()
        raise StateError(
            f"the process that keeps shards {', '.join(map(str, self.given))} died {TRIES} times while it judged batch "
            f"{self.work.batch_id}; see the system's log for the reason (out of memory?)"
        )
