"""The driver's side of batches of files without a job: which ones, and their stages in processes of this machine."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from crossline.io.chunks import ChunkRef
from crossline.runtime.snapshot.spark_log import bounds_of
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.sources.references import deal_chunks
from crossline.runtime.stages.rows import OUT
from crossline.runtime.stages.spill import body_of
from crossline.runtime.work.rests import Rests
from crossline.runtime.work.rows import Rows, StageRows
from crossline.runtime.work.task import Task
from crossline.runtime.workers.forked_process import answered, forked_process
from crossline.runtime.workers.stage_worker import StageRequest, StageSetup
from crossline.runtime.workers.state_server import announced_folder

ANSWER_S_MAX = 120.0  # of a stage, which may have seconds of records; then Spark runs the batch
MODULE = "crossline.runtime.workers.stage_worker"

Chunks = Mapping[str, Sequence[ChunkRef]]


def chunks_of_batch(checkpoint: str, batch_id: int, sources: Sequence[SourcePlan]) -> Chunks | None:
    """By stream, the chunks of a batch that is planned; None where Spark alone knows them."""
    bounds = bounds_of(checkpoint, batch_id, len(sources))
    if bounds is None:
        return None
    found: dict[str, Sequence[ChunkRef]] = {}
    for source, (begin, end) in zip(sources, bounds, strict=True):
        chunks = chunks_between(source, begin, end)
        if chunks is None:
            return None
        found[source.stream] = chunks
    return found


def chunks_between(
    source: SourcePlan, begin: Mapping[str, int] | None, end: Mapping[str, int] | None
) -> Sequence[ChunkRef] | None:
    """The chunks of a source between two offsets; None where it has none, or does not have all of these."""
    if source.chunks is None:
        return None
    first, last = ((each or {"chunk": 0})["chunk"] for each in (begin, end))
    chunks = source.chunks(first, last)
    return chunks if len(chunks) == last - first else None


class StageProcesses:
    """Has stages run by ``count`` processes forked from ``zygote`` (its socket). Used by one thread at a time.

    What cannot be run is None, and Spark runs that batch; it also runs the next one, and more where it happens again.
    """

    def __init__(self, zygote: Path, setup: StageSetup, count: int, stopping: threading.Event) -> None:
        self._zygote = zygote
        self._setup = setup
        self._count = count
        self._stopping = stopping
        self._connections: list[Connection] = []
        self._rests = Rests()

    def take_in(self, task: Task, chunks: Chunks) -> StageRows | None:
        """The rows of the first stage of a batch with these chunks, ahead of the batch."""
        return None if self._rests.left or not self._judged_here() else self._take_in(task, chunks)

    def run(self, task: Task, chunks: Chunks, taken: StageRows | None, stages: int) -> Rows | None:
        """The outcome rows of a batch of ``stages``; ``taken``: the rows of its first stage, where that is done."""
        if self._rests.take() or not self._judged_here():
            return None
        rows = self._take_in(task, chunks) if taken is None else taken
        outcome: StageRows = []
        for stage in range(1, stages):
            if rows is None:
                return None
            requests = [
                StageRequest(self._part(task, number), stage, rows=[r for r in rows if self._is_for(r, stage, number)])
                for number in range(self._count)
            ]
            outcome += [row for row in rows if row[0] == OUT]
            later = [row for row in rows if row[0] > stage]
            made = self._answers(requests)
            rows = None if made is None else later + made
        return None if rows is None else [(kind, bytes(body_of(body))) for *_, kind, body in (*outcome, *rows)]

    def _judged_here(self) -> bool:
        """Whether there are state servers, which Spark's first task has begun."""
        return announced_folder(self._setup.folder) is not None

    def _take_in(self, task: Task, chunks: Chunks) -> StageRows | None:
        dealt: list[dict[str, Sequence[ChunkRef]]] = [{} for _ in range(self._count)]
        for stream, mine in chunks.items():
            for number, run in enumerate(deal_chunks(mine, self._count) if mine else ()):
                dealt[number][stream] = run
        return self._answers([StageRequest(self._part(task, number), 0, part) for number, part in enumerate(dealt)])

    def _is_for(self, row: tuple[int, int, str, bytes], stage: int, number: int) -> bool:
        return row[0] == stage and row[1] % self._count == number

    def _part(self, task: Task, number: int) -> Task:
        return replace(task, partition=number, partitions=self._count, spill_folder=self._setup.spill_folder)

    def _answers(self, requests: Sequence[StageRequest]) -> StageRows | None:
        """All that the processes make of their parts; None where one does not: then all end."""
        try:
            for connection, request in zip(self._connected(), requests, strict=True):
                connection.send_bytes(pickle.dumps(request))
            found = [self._answer(connection) for connection in self._connections]
        except (EOFError, OSError):
            found = [None]
        rows: StageRows = []
        for each in found:
            if each is None:
                self.close()
                self._rests.failed()
                return None
            rows += each
        self._rests.succeeded()
        return rows

    def _answer(self, connection: Connection) -> StageRows | None:
        """What a process made; None where that does not come in time, or the pipeline is being stopped."""
        if not answered(connection, ANSWER_S_MAX, self._stopping):
            return None
        rows: StageRows | None = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own process
        return rows

    def _connected(self) -> list[Connection]:
        setup = pickle.dumps(self._setup)
        while len(self._connections) < self._count:
            self._connections.append(forked_process(self._zygote, MODULE))
            self._connections[-1].send_bytes(setup)
        return self._connections

    def close(self) -> None:
        """Have the processes end."""
        for each in self._connections:
            each.close()
        self._connections = []
