"""A batch of topics without a job of Spark: read, decoded and judged by one process that stays.

Spark, or the driver in its stead, plans the offsets of a batch, and writes them before it runs and after it; that is
all a batch of some hundred records needs of it. To plan its query and start a task takes 50 to 80 ms; the stages
themselves take 15. And to read a record and hand it to Python takes Java 8 us, in place of 2. So a process that was
forked with all loaded holds the readers of the topics, runs the same stages over the same records, and has the same
state servers judge them. Whatever is not as it should be, it leaves to Spark, which runs the batch as any other.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crossline.io.files.listing import ChunkList
from crossline.io.kafka.transactions.decision_topic import DecisionTopic
from crossline.io.kafka.unavailable_range import Place, Range, RangeUnavailableError
from crossline.runtime.machine.process_title import set_process_title
from crossline.runtime.snapshot.snapshot import SnapshotSource
from crossline.runtime.sources.intake import TOGETHER_MAX, Intake, StreamIntake
from crossline.runtime.sources.messages import message_rows
from crossline.runtime.sources.references import chunk_rows
from crossline.runtime.stages.stages import in_one, stages_of
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from crossline.runtime.workers.state_server import announced_folder, use_folder
from crossline.runtime.workers.state_servers import StateServerJudge

if TYPE_CHECKING:
    from crossline.io.kafka.range_reader import KafkaRangeReader

TITLE = "cl-in-process"
CHUNKS: Place = ("", -1)  # the range of a source of chunks: their numbers, of no partition
CHUNK_BYTES_MAX = 8 << 20  # of a batch from files that is read here
_TURN_S = 0.002  # that one of several streams is waited for
READ_WAIT_S = 5.0  # those of a batch are in the broker when it is planned; after this wait Spark runs it


@dataclass(frozen=True, slots=True)
class Setup:
    """What the process is to know once. ``clients``: by stream, how its brokers are reached; never printed.

    ``patience_s``: with records that do not come. ``listed``: by stream that is no topic, the folder of its chunks.
    ``elsewhere``: see ``StateServerJudge``.
    """

    source: SnapshotSource
    cache: ShardCache
    state_servers: int
    folder: Path
    intakes: Mapping[str, Intake]
    clients: Mapping[str, Mapping[str, str]]
    topic: DecisionTopic | None = None
    patience_s: float = READ_WAIT_S
    listed: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool = False

    def __repr__(self) -> str:
        return f"Setup({', '.join(self.intakes)})"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch: its task, and by stream the ranges of its partitions; ``ranges`` None: read no further for now."""

    task: Task
    ranges: Mapping[str, Mapping[Place, Range]] | None


@dataclass(frozen=True, slots=True)
class BufferedRequest:
    """How far the records go that are in memory: by stream, where the next batch begins in each partition.

    ``wait_s``: for a first record. ``records_max``: of a batch; ``each_max``: by stream, of those of one.
    """

    starts: Mapping[str, Mapping[Place, int]]
    wait_s: float
    records_max: int
    each_max: Mapping[str, int] = field(default_factory=dict)


# By stream and partition, where the records in memory end; empty: there are none.
Ends = Mapping[str, Mapping[Place, int]]


class InProcessWorker:
    """Runs batches, one after the other."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._tails = _tails(setup.clients)
        self._lists = {stream: ChunkList(folder) for stream, folder in setup.listed.items()}
        self._intake = StreamIntake(setup.intakes)
        self._judge = StateServerJudge(
            setup.source, setup.cache, setup.state_servers, setup.topic, elsewhere=setup.elsewhere
        )

    def run(self, request: BatchRequest) -> Rows | None:
        """The outcome rows of a batch; None where Spark is to run it."""
        if request.ranges is None:
            for tail in self._tails.values():
                tail.rest()
            return None
        where = announced_folder(self._setup.folder)
        use_folder(where)
        if where is None:
            return None
        rows: Rows = []
        kept = self._setup.topic is not None
        stages = stages_of(self._setup.source, self._intake, self._judge, kept=kept, patient=False)
        try:
            # Closed here: the end of a reader that is collected during a later batch would end that batch's reading.
            with closing(self._read(request.ranges)) as read:
                for batch in in_one(stages, request.task, read):
                    rows += zip(batch.column("kind").to_pylist(), batch.column("body").to_pylist(), strict=True)
        except RangeUnavailableError:
            return None
        return rows

    def buffered(self, request: BufferedRequest) -> Ends | None:
        """Where the records in memory end; None where they are more than a batch may have, or cannot be read."""
        until_s = time.monotonic() + request.wait_s
        wait_s = request.wait_s if len(request.starts) == 1 else _TURN_S
        count, ends = 0, dict[str, Mapping[Place, int]]()
        try:
            while not count:
                for stream, starts in request.starts.items():
                    most = min(request.records_max, request.each_max.get(stream, request.records_max))
                    patience_s = 0.0 if count else wait_s
                    found, ends[stream] = self._tails[stream].buffered(starts, patience_s, most + 1)
                    if found > most:
                        return None
                    count += found
                if time.monotonic() >= until_s:
                    break
        except RangeUnavailableError:
            return None
        if count > request.records_max:
            return None
        return ends if count else {}

    def _read(self, of: Mapping[str, Mapping[Place, Range]]) -> Generator[pa.RecordBatch]:
        """The records of each stream's ranges, in slices; all are read before the first shard is judged."""
        streams = self._setup.source.current().streams
        for stream, ranges in of.items():
            if stream in self._lists:
                yield from self._chunks(stream, *ranges[CHUNKS])
                continue
            headers, few = bool(streams[stream].headers), list[tuple[Place, Sequence[Any]]]()
            for place, messages in self._tails[stream].read(ranges, self._setup.patience_s):
                few.append((place, messages))
                if sum(len(mine) for _, mine in few) > TOGETHER_MAX:
                    for each in few:
                        yield StreamIntake.marked(stream, message_rows([each], headers=headers))
                    few.clear()
            if few:
                yield StreamIntake.marked(stream, message_rows(few, headers=headers))

    def _chunks(self, stream: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The chunks of a batch, which are in the list before Spark gets their offsets."""
        listed = self._lists[stream]
        listed.refresh()
        chunks = listed.chunks(start, end)
        if len(chunks) < end - start or sum(each.end - each.start for each in chunks) > CHUNK_BYTES_MAX:
            raise RangeUnavailableError(f"{stream}: chunks {start}-{end} are for Spark's tasks")
        if chunks:
            yield StreamIntake.marked(stream, chunk_rows(chunks))
        listed.forget(start)  # no batch before this one is run again


def _tails(clients: Mapping[str, Mapping[str, str]]) -> dict[str, KafkaRangeReader]:
    """What reads the topics of each stream ahead."""
    if not clients:
        return {}
    from crossline.io.kafka.range_reader import KafkaRangeReader  # noqa: PLC0415 - the client is an extra

    return {stream: KafkaRangeReader(client) for stream, client in clients.items()}


def serve(connection: Connection) -> None:
    """Run requests until the caller is gone; a failed batch is left to Spark, which reports the failure."""
    direct = InProcessWorker(pickle.loads(connection.recv_bytes()))  # noqa: S301 - from the process that had this one forked
    while True:
        request = pickle.loads(connection.recv_bytes())  # noqa: S301 - as above
        try:
            answer = direct.buffered(request) if isinstance(request, BufferedRequest) else direct.run(request)
        except Exception as error:  # noqa: BLE001 - as above
            sys.stderr.write(f"a batch is left to Spark: {type(error).__name__}: {error}\n")
            answer = None
        if isinstance(request, BufferedRequest) or request.ranges is not None:
            connection.send_bytes(pickle.dumps(answer))


def main() -> None:
    """Serve whichever process had this process forked, at its standard input."""
    set_process_title(TITLE)
    with suppress(EOFError, ConnectionError):  # it is also reset, where the end comes with something unread
        serve(Connection(0))
