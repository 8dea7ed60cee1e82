"""The records of the next batch, taken in while sinks get what came of this one.

Batches follow each other: the next one begins when every sink has this one, and Spark has noted it. Meanwhile
processors wait. Where the source has fixed what the next batch will be (``SourcePlan.planned``), its first stage runs
in that time. That stage has no state: it depends on the bytes, and on the plan snapshot. So its rows are used where the
batch turns out to have these bytes and this snapshot, and are dropped otherwise. Whatever fails here is done again by
the batch itself, which reports it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from crossline.basics.errors import StoppedError
from crossline.logs import get_logger
from crossline.runtime.pipeline.stage_processes import StageProcesses, chunks_between
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotSource
from crossline.runtime.snapshot.spark_log import offsets_of, query_id
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.spark.flow import taken_in
from crossline.runtime.spark.task import publish_batch
from crossline.runtime.stages.stages import take_in_stage
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.task import Task

LOOK_S = 0.2

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What is taken in: batch ``batch_id``, from one offset to another, by ``snapshot``."""

    batch_id: int
    start: dict[str, Any]
    end: dict[str, Any]
    snapshot: PlanSnapshot
    rows: Future[StageRows]


class InputAhead:
    """Takes in the next batch of one source. Used by one thread at a time.

    ``spill_folder``: where large bodies of rows go; it is cleared after each batch, before ``begin`` is called.
    ``processes``: what runs the stage; where they are none, or do not, a job of Spark does.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: SourcePlan,
        checkpoint: str,
        partitions: int,
        spill_folder: Path,
        stopping: threading.Event,
        processes: StageProcesses | None,
    ) -> None:
        self._spark = spark
        self._source = source
        self._checkpoint = checkpoint
        self._partitions = partitions
        self._spill_folder = spill_folder
        self._stopping = stopping
        self._processes = processes
        self._tag = f"crossline-ahead-{uuid.uuid4().hex}"
        self._thread = ThreadPoolExecutor(1, "ahead")
        self._ahead: _Ahead | None = None

    def begin(self, batch_id: int, snapshots: SnapshotSource, snapshot: PlanSnapshot) -> None:
        """Batch ``batch_id`` was judged: take in the one after it, where it is known which records it has.

        ``snapshots``: where tasks find ``snapshot``, the plan snapshot in force.
        """
        self.drop()
        if self._source.planned is None or self._stopping.is_set():
            return
        with suppress(OSError):
            start = offsets_of(self._checkpoint, batch_id)[0]
            end = None if start is None else self._source.planned(start)
            if start is not None and end is not None:
                rows = self._thread.submit(self._take_in, batch_id + 1, start, end, snapshots)
                self._ahead = _Ahead(batch_id + 1, start, end, snapshot, rows)

    def _take_in(
        self, batch_id: int, start: dict[str, Any], end: dict[str, Any], snapshots: SnapshotSource
    ) -> StageRows:
        if self._processes is not None:
            task = Task(query_id(self._checkpoint), batch_id, began_ms=0)
            chunks = chunks_between(self._source, start, end)
            rows = None if chunks is None else self._processes.take_in(task, {self._source.stream: chunks})
            if rows is not None:
                return rows
            if self._stopping.is_set():
                raise StoppedError("stopped before the next batch was taken in")
        context = self._spark.sparkContext
        context.addJobTag(self._tag)
        publish_batch(self._spark, query_id(self._checkpoint), batch_id, 0)
        frame = self._source.history(self._spark, start, end)
        stage = take_in_stage(snapshots, self._source.intake)
        return taken_in(frame, stage, self._partitions, self._spill_folder)

    def rows(self, batch_id: int, snapshot: PlanSnapshot) -> StageRows | None:
        """What the first stage makes of batch ``batch_id``; None where that was not done, or by another snapshot."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        if ahead.batch_id == batch_id and ahead.snapshot is snapshot and self._has_its_records(ahead):
            while not self._stopping.is_set():
                try:
                    return ahead.rows.result(LOOK_S)
                except NotYet:
                    continue
                except Exception as error:  # noqa: BLE001 - the batch itself will meet it, and report it
                    log.info("records that were to be read ahead are read again", batch_id=batch_id, error=str(error))
                    return None
        self._end(ahead)
        return None

    def _has_its_records(self, ahead: _Ahead) -> bool:
        """Whether the batch has the records that were taken in."""
        try:
            begins, ends = (offsets_of(self._checkpoint, ahead.batch_id - back) for back in (1, 0))
        except OSError:
            return False
        return begins == [ahead.start] and ends == [ahead.end]

    def _end(self, ahead: _Ahead) -> None:
        """Cancel its job, which may be about to start, and wait until it, or what processes do, has ended."""
        while not ahead.rows.cancel() and not ahead.rows.done():
            with suppress(Exception):  # a Spark that is gone has no jobs
                self._spark.sparkContext.cancelJobsWithTag(self._tag)
            with suppress(Exception):
                ahead.rows.result(LOOK_S)

    def drop(self) -> None:
        """Let go of what was taken in."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._end(ahead)

    def close(self) -> None:
        """End what is at work."""
        self.drop()
        self._thread.shutdown()


def input_ahead(
    spark: SparkSession,
    sources: Sequence[SourcePlan],
    checkpoint: str,
    partitions: int,
    spill_folder: Path | None,
    stopping: threading.Event,
    processes: StageProcesses | None,
) -> InputAhead | None:
    """What takes in the next batch; None where tasks may run elsewhere, or no source says what it will be."""
    if spill_folder is None or len(sources) != 1 or sources[0].planned is None:
        return None
    return InputAhead(spark, sources[0], checkpoint, partitions, spill_folder, stopping, processes)
