"""The driver's side of batches without a job: which ones, and asking for them."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from crossline.io.kafka.unavailable_range import Place, Range
from crossline.runtime.snapshot.spark_log import bounds_of
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.work.rests import Rests
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from crossline.runtime.workers.forked_process import answered, forked_process
from crossline.runtime.workers.in_process_worker import CHUNKS, BatchRequest, BufferedRequest, Ends, Setup

ANSWER_S_MAX = 30.0  # of a batch that was handed over; then Spark runs it
_LOOK_S = 0.1  # whether it is being stopped
MODULE = "crossline.runtime.workers.in_process_worker"

Ranges = Mapping[str, Mapping[Place, Range]]


def ranges_of(checkpoint: str, batch_id: int, sources: Sequence[SourcePlan]) -> Ranges | None:
    """By stream, where the batch begins and ends in each partition, or list of chunks; None: Spark alone knows it."""
    if any(source.client is None and source.listed is None for source in sources):
        return None
    bounds = bounds_of(checkpoint, batch_id, len(sources))
    if bounds is None:
        return None
    found: dict[str, dict[Place, Range]] = {}
    for source, (begin, end) in zip(sources, bounds, strict=True):
        mine = found[source.stream] = {}
        if source.listed is not None:
            mine[CHUNKS] = ((begin or {"chunk": 0})["chunk"], (end or {"chunk": 0})["chunk"])
            continue
        for topic, partitions in (end or {}).items():
            for number, offset in partitions.items():
                start = (begin or {}).get(topic, {}).get(number)
                if start is None or offset < start:
                    return None  # it is new, or is another: that is Spark's to report, and to say where it begins
                mine[topic, int(number)] = (start, offset)
        if any(partitions.keys() - (end or {}).get(topic, {}).keys() for topic, partitions in (begin or {}).items()):
            return None  # one is gone
    return found


def records_in(ranges: Ranges) -> int:
    """How many records there are in topics at most."""
    topics = (each for places in ranges.values() for place, each in places.items() if place != CHUNKS)
    return sum(end - start for start, end in topics)


class InProcessRunner:
    """Has batches run by one process forked from ``zygote`` (its socket); None for a batch that it does not run."""

    def __init__(self, zygote: Path, setup: Setup, stopping: threading.Event) -> None:
        self._zygote = zygote
        self._setup = setup
        self._stopping = stopping
        self._connection: Connection | None = None
        self._rests = Rests()
        self._reading = False

    def buffered(
        self, starts: Mapping[str, Mapping[Place, int]], wait_s: float, records_max: int, each_max: Mapping[str, int]
    ) -> Ends | None:
        """Where the records end that the process has in memory from ``starts`` on; empty: none came in ``wait_s``.

        None where they are more than ``records_max``, or of a stream more than ``each_max``, or Spark is to run the
        next batch.
        """
        until_s = time.monotonic() + wait_s
        while self._connection is not None and not self._rests.left:
            left_s = max(0.0, until_s - time.monotonic())
            # The process cannot be stopped while it waits.
            request = BufferedRequest(starts, min(left_s, _LOOK_S), records_max, each_max)
            ends: Ends | None = self._ask(self._connection, request)
            if ends is None or ends or left_s <= _LOOK_S or self._stopping.is_set():
                return ends
        return None

    def run(self, task: Task, ranges: Ranges) -> Rows | None:
        """The outcome rows of the batch; None where Spark is to run it."""
        if self._rests.take():
            return None
        rows: Rows | None = None
        try:
            connection = self._connected()
        except (EOFError, OSError):
            self.close()
        else:
            self._reading = True
            rows = self._ask(connection, BatchRequest(task, ranges))
        if rows is None:
            self._rests.failed()
        else:
            self._rests.succeeded()
        return rows

    def _ask(self, connection: Connection, request: BatchRequest | BufferedRequest) -> Any:
        """The answer of the process; None where it has none, or does not answer: then it ends."""
        try:
            connection.send_bytes(pickle.dumps(request))
            if answered(connection, ANSWER_S_MAX, self._stopping):
                return pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own process
        except (EOFError, OSError):
            pass
        self.close()
        return None

    def rest(self) -> None:
        """Larger batches are under way: what is read ahead would be read for nothing."""
        if self._reading and self._connection is not None:
            try:
                self._connection.send_bytes(pickle.dumps(BatchRequest(Task(), None)))
            except OSError:
                self.close()
            self._reading = False

    def close(self) -> None:
        """Have the process end."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._reading = None, False

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = forked_process(self._zygote, MODULE)
            self._connection.send_bytes(pickle.dumps(self._setup))
        return self._connection
