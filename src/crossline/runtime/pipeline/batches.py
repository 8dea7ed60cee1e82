"""The batches of a running pipeline: each planned, run, delivered and marked as done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from crossline.io.chunks import READY
from crossline.io.sinks.base import Delivery, Sink, SinkWatch, deliver_all
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.machine.processors import processors
from crossline.runtime.pipeline.beside_spark import (
    driver_standby,
    in_process_runner,
    spill_folder_of,
    stage_processes,
)
from crossline.runtime.pipeline.in_process_runner import ranges_of, records_in
from crossline.runtime.pipeline.input_ahead import input_ahead
from crossline.runtime.pipeline.planner import ONE_TASK_RECORDS, PipelineSettings, Planner
from crossline.runtime.pipeline.stage_processes import chunks_of_batch
from crossline.runtime.snapshot.checkpoint import Checkpoint
from crossline.runtime.snapshot.rule_costs import Costs, shown
from crossline.runtime.snapshot.spark_log import began_ms, query_id
from crossline.runtime.sources.intake import Intake
from crossline.runtime.sources.plan_source import FetchRaw, SourcePlan, fetchers_of
from crossline.runtime.spark.flow import rows_frame
from crossline.runtime.spark.task import publish_batch
from crossline.runtime.spark_internals.batch_fetcher import Frame
from crossline.runtime.spark_internals.rate_controller import RateController
from crossline.runtime.stages.outcome import Outcome, collect_from_spark, collect_outcome
from crossline.runtime.stages.spill import clear
from crossline.runtime.stages.stages import stage_count
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.runtime.work.rows import Rows, StageRows
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.work.task import Task
from crossline.runtime.work.totals import AHEAD, IN_PROCESS, RAN, STAGES, STORED, Totals

# One process reads, takes in and has judged 150,000 records a second, which Spark's tasks do on two processors; where
# there are more, they are the quicker ones from some size on.
IN_PROCESS_RECORDS = 100_000 if processors() > 2 else sys.maxsize
# Up to here the driver plans the next batch: planning by Spark takes 50 ms, while records wait already. The process
# that has the records in memory holds no more than this, and a message of the client takes about a kilobyte.
SERIES_RECORDS = 32_000


class Batches:
    """Runs one batch at a time; what is published comes in between (``changes``).

    ``began_s``: since when the batch that runs does, on the wall clock; None: none runs.

    ``in_process``: what runs batches of topics without a job. ``way``: how the last one was run.

    ``enough``: where it is given, ``reached`` is set once so many records were judged or refused.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: PipelineSettings,
        planner: Planner,
        sources: Sequence[SourcePlan],
        sinks: Sequence[Sink],
        changes: RuleChanges,
        history: OffsetHistory,
        stopping: threading.Event,
        on_batch: Callable[[Delivery, Totals], None] | None = None,
        sink_watch: SinkWatch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._planner = planner
        self._sources = sources
        self._sinks = sinks
        self._changes = changes
        self._history = history
        self._stopping = stopping
        self._on_batch = on_batch
        self._sink_watch = sink_watch
        self._checkpoint = checkpoint
        self._cache = ShardCache(
            settings.state_root, per_query=False, held_max=settings.shards_held, standby=settings.standby
        )
        self._spill_folder = spill_folder_of(settings)
        self.in_process = in_process_runner(settings, sources, changes.file, self._cache, stopping)
        self._processes = stage_processes(settings, sources, changes.file, self._cache, self._spill_folder, stopping)
        self._ahead = input_ahead(
            spark, sources, settings.checkpoint, settings.partitions, self._spill_folder, stopping, self._processes
        )
        self._standby = driver_standby(settings, sources, changes.file, self._cache, stopping)
        self._costs = Costs()
        self.rate = RateController(settings.records_max, settings.within_ms) if settings.records_max else None
        self.totals = Totals()
        self.began_s: float | None = None
        self.enough: int | None = None
        self.reached = threading.Event()
        self.way = STAGES
        self._counted = -1
        self.done = -1  # the last batch that is with every sink, and noted

    def run(self, frame: Frame, intake: Intake, batch_id: int, *, stored: bool = False) -> None:
        """Judge the records of a frame, which ``intake`` reads, and give what comes of it to all sinks.

        ``stored``: they are from the lake, and not from the sources.
        """
        with self._changes.between_batches:
            try:
                delivery = self._run(frame, intake, batch_id, stored=stored)
            except BaseException:
                self._changes.failed()
                raise
        again, self.done = self.done == batch_id, batch_id
        if self._on_batch is not None and not again:
            self._on_batch(delivery, self.totals)

    def _run(self, frame: Frame, intake: Intake, batch_id: int, *, stored: bool) -> Delivery:
        begun, begun_ms = time.monotonic(), time.time() * 1e3
        self.began_s = begun_ms / 1e3
        self.totals.first_s = self.totals.first_s or begun
        checkpoint = self._settings.checkpoint
        task = Task(query_id(checkpoint), batch_id, began_ms=began_ms(checkpoint, batch_id))
        with self._changes.judging():
            self._publish()
            outcome = self._outcome(frame, intake, task, stored=stored)
            verified = [] if stored else [source.verify() for source in self._sources]
            self._changes.judged(outcome.clocks)
            self._changes.note_unscored(outcome.figures.get("failed", {}))
            self._changes.trip_breakers(batch_id, outcome.alerts)
        delivery = self._delivery(task, outcome, begun, begun_ms)
        after = Stopwatch()
        self._publish()
        if self._ahead is not None and not stored and delivery.figures["records"] > ONE_TASK_RECORDS:
            snapshot = self._changes.snapshot
            self._ahead.begin(batch_id, self._planner.snapshot(self._changes.file, snapshot), snapshot)
        deliver_all(self._sinks, delivery, stop=self._stopping, watch=self._sink_watch)
        after.lap("deliver")
        for settle in verified:
            settle()
        self._mark(delivery)
        self._publish()
        after.lap("mark")
        self.totals.after_ms = after.spent_ms
        self.began_s = None
        return delivery

    def _publish(self) -> None:
        """What was noted so far is where the checkpoint is, before anything is done that rests on it."""
        if self._checkpoint is not None:
            self._checkpoint.publish(self._stopping)

    def _outcome(self, frame: Frame, intake: Intake, task: Task, *, stored: bool) -> Outcome:
        """The outcome of the batch (``stored``: from the lake); small ones run without a Spark job if possible."""
        # What a topic has deleted is not fetched from it: sinks have got it once.
        fetchers = None if stored else fetchers_of(self._sources, self._changes.snapshot.streams)
        if self.in_process is not None and not stored:
            ranges = ranges_of(self._settings.checkpoint, task.batch_id, self._sources)
            if ranges is not None and records_in(ranges) <= IN_PROCESS_RECORDS:
                rows = self.in_process.run(task, ranges)
                if rows is not None:
                    return self._ran(IN_PROCESS, collect_outcome(rows, fetchers))
            else:
                self.in_process.rest()
        taken = None
        try:
            if self._ahead is not None and not stored:
                taken = self._ahead.rows(task.batch_id, self._changes.snapshot)
            rows = None if stored else self._run_in_processes(task, taken)
            if rows is not None:
                outcome = self._ran(IN_PROCESS, collect_outcome(rows, fetchers))
            else:
                outcome = self._run_in_spark(frame, intake, task, taken, fetchers)
        finally:
            if self._spill_folder is not None:
                clear(self._spill_folder)
        if stored:
            outcome.figures[STORED] = 1
        if taken is not None:
            outcome.figures[AHEAD] = 1
        return outcome

    def _run_in_spark(
        self,
        frame: Frame,
        intake: Intake,
        task: Task,
        taken: StageRows | None,
        fetchers: Mapping[str, FetchRaw] | None,
    ) -> Outcome:
        """The outcome of a batch as a job. Where no executor is left that could judge it, it runs beside the driver."""
        snapshot = self._planner.snapshot(self._changes.file, self._changes.snapshot)

        def collected() -> Outcome:
            publish_batch(self._spark, task.query_id, task.batch_id, task.began_ms or 0)
            raw = frame() if taken is None else rows_frame(self._spark, taken)
            planned = self._planner.plan(
                (raw, intake), snapshot, self._cache, self._spill_folder, task, taken=taken is not None
            )
            return self._ran(self._planner.way, collect_from_spark(planned, fetchers))

        placement = self._planner.place(snapshot, self._cache, task)
        if placement is None or self._standby is None or fetchers is None:  # records of the lake are in no source
            return collected()
        outcome = self._standby.watched(task, self._changes.snapshot, placement, collected)
        if isinstance(outcome, Outcome):
            return outcome
        return collected() if outcome is None else self._ran(IN_PROCESS, collect_outcome(outcome, fetchers))

    def _run_in_processes(self, task: Task, taken: StageRows | None) -> Rows | None:
        """The outcome rows of a batch of chunks; ``taken``: of its first stage. None where Spark is to run it."""
        if self._processes is None:
            return None
        chunks = chunks_of_batch(self._settings.checkpoint, task.batch_id, self._sources)
        stages = stage_count(self._changes.snapshot)
        return None if chunks is None else self._processes.run(task, chunks, taken, stages)

    def _ran(self, way: str, outcome: Outcome) -> Outcome:
        """``outcome`` with ``way`` in its figures."""
        self.way = outcome.figures[RAN] = way
        return outcome

    def series_max(self) -> tuple[int, dict[str, int]]:
        """The most records of a batch that the driver plans, and of those of each stream of topics."""
        most, share = (SERIES_RECORDS, 1.0) if self.rate is None else (self.rate.records, self.rate.share)
        of_topics = ((each.stream, each.records_max) for each in self._sources if each.records_max is not None)
        return min(SERIES_RECORDS, most), {stream: max(1, round(mine * share)) for stream, mine in of_topics}

    def close(self) -> None:
        """Let go of what runs batches."""
        if self._ahead is not None:
            self._ahead.close()
        if self._processes is not None:
            self._processes.close()
        if self._standby is not None:
            self._standby.close()
        if self.in_process is not None:
            self.in_process.close()

    def _delivery(self, task: Task, outcome: Outcome, begun_s: float, begun_ms: float) -> Delivery:
        cost_ms = self._costs.of(self._changes.snapshot, outcome.costs)
        self.totals.cost(cost_ms)
        figures = {
            **outcome.figures,
            "began_ms": round(begun_ms),
            "detect_ms": round((time.monotonic() - begun_s) * 1000),
            "wall_ms": outcome.spent.wall_ms(begun_ms, time.time() * 1e3),
            "spent_ms": outcome.spent.spent_ms,
            "cost_ms": shown(cost_ms),
            **({"records_max": self.rate.records} if self.rate is not None else {}),
        }
        return replace(
            outcome.delivery(self._settings.name, task.batch_id),
            figures=figures,
            rule_events=self._changes.events(),
            checkpoint=task.query_id,
            began_ms=task.began_ms or 0,
        )

    def _mark(self, delivery: Delivery) -> None:
        """The batch is with every sink."""
        self._changes.drop_events(delivery.rule_events)
        if self._counted != delivery.batch_id:  # else it is run again, since a disk was full when it was noted
            self.totals.add(delivery)
            self._counted = delivery.batch_id
        read_count = delivery.figures["records"] + len(delivery.dead)
        self._planner.note_size(read_count)
        if self.rate is not None:
            self.rate.batch(read_count, delivery.figures["detect_ms"])
        if self.enough is not None and self.totals.read_count >= self.enough:
            self.reached.set()
        if self.totals.batches == 1:
            ready = Path(self._settings.checkpoint) / "sources" / READY
            ready.parent.mkdir(parents=True, exist_ok=True)
            ready.touch()
        self._history.add(delivery.batch_id, self._changes.clocks)
        self._changes.delivered(delivery.batch_id)
