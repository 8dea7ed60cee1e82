"""Batches of topics that follow one of Spark's, planned by the driver.

Between two batches Spark looks up the newest offsets, plans a query, describes it, notes what it did: 10 to 20 ms, and
a third of the processor time of a small batch. The process of the in-process runner knows which records it has in
memory. So the driver plans the next batch up to there: it logs its offsets, and the commit of the batch before, as
Spark would. The batch then runs as any other. After some seconds, or where anything is not as usual, Spark goes on from
the last batch of the series, which it commits.

A restart finds in the logs what it would find of Spark's batches: the newest one, with or without its commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from crossline.io.kafka.unavailable_range import Place
from crossline.runtime.pipeline.in_process_runner import InProcessRunner
from crossline.runtime.snapshot.spark_log_entries import Offsets, SparkLogEntries
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.spark.flow import union_of
from crossline.runtime.spark_internals.batch_fetcher import Frame

SERIES_S = 10.0  # then Spark looks for partitions that are new, and reports its progress
WAIT_S = 0.01  # for a record; then Spark commits the last batch, and waits

# Runs a batch; whether the batch after it may be planned here.
RunBatch = Callable[[Frame, int], bool]


class BatchSeries:
    """Plans batches of ``sources``, all of which are topics, and has ``run`` run them.

    ``most``: how many records the next batch may have, and how many of each stream.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        sources: Sequence[SourcePlan],
        runner: InProcessRunner,
        stopping: threading.Event,
        run: RunBatch,
        most: Callable[[], tuple[int, Mapping[str, int]]],
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._sources = sources
        self._runner = runner
        self._stopping = stopping
        self._run = run
        self._most = most

    def follow(self, batch_id: int) -> int:
        """Run batches after ``batch_id``, which is done; the last that is done now."""
        entries = SparkLogEntries.of(self._checkpoint, batch_id)
        if entries is None or len(entries.offsets) != len(self._sources):
            return batch_id
        until_s, goes_on = time.monotonic() + SERIES_S, True
        while goes_on and time.monotonic() < until_s and not self._stopping.is_set():
            before = entries.offsets
            starts = {each.stream: _places(begin) for each, begin in zip(self._sources, before, strict=True)}
            ends = self._runner.buffered(starts, WAIT_S, *self._most())
            if not ends:
                break
            entries.next([ends[source.stream] for source in self._sources], round(time.time() * 1e3))
            goes_on = self._run(self._frame_of(before, entries.offsets), entries.last)
        return entries.last

    def _frame_of(self, before: Sequence[Offsets], after: Sequence[Offsets]) -> Frame:
        """The records of a batch as Spark reads them, for a batch that is left to it."""

        def frame() -> DataFrame:
            inputs = [
                (source.history(self._spark, begin, end), source.intake)
                for source, begin, end in zip(self._sources, before, after, strict=True)
            ]
            return union_of(inputs)[0]

        return frame


def _places(offsets: Offsets) -> dict[Place, int]:
    return {(topic, int(number)): at for topic, partitions in offsets.items() for number, at in partitions.items()}
