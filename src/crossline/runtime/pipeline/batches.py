"""The batches of a running pipeline: each planned, run, delivered and marked as done."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from crossline.io.chunks import READY
from crossline.io.kafka.transactions.decision_topic import DecisionTopic
from crossline.io.sinks.base import Delivery, Sink, SinkWatch, deliver_all
from crossline.rules.breaker import Bound
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.java.launch import started
from crossline.runtime.machine.processors import processors
from crossline.runtime.pipeline.in_process_runner import InProcessRunner, ranges_of, records_in
from crossline.runtime.pipeline.input_ahead import input_ahead
from crossline.runtime.snapshot.checkpoint import Checkpoint
from crossline.runtime.snapshot.rule_costs import Costs, shown
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile, SnapshotSource
from crossline.runtime.snapshot.snapshot_distribution import SnapshotDistribution
from crossline.runtime.snapshot.spark_log import began_ms, query_id
from crossline.runtime.sources.intake import Intake, KafkaIntake
from crossline.runtime.sources.plan_source import SourcePlan, fetchers_of
from crossline.runtime.spark.flow import Input, in_one_task, in_stages, rows_frame, union_of
from crossline.runtime.spark.task import publish_batch
from crossline.runtime.spark_internals.batch_fetcher import Frame
from crossline.runtime.spark_internals.rate_controller import RateController
from crossline.runtime.spark_internals.shard_placement import ShardPlacement
from crossline.runtime.stages.outcome import Outcome, collect_from_spark, collect_outcome
from crossline.runtime.stages.spill import clear
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.work.task import Task
from crossline.runtime.work.totals import AHEAD, IN_PROCESS, ONE_TASK, RAN, STAGES, STORED, Totals
from crossline.runtime.workers.executor_warmup import ExecutorWarmup
from crossline.runtime.workers.in_process_worker import Setup
from crossline.runtime.workers.state_servers import StateServerJudge

# Up to here one task is done before two stages would be: a shuffle and a second stage take some 40 ms.
ONE_TASK_RECORDS = 8_000
# One process reads, takes in and has judged 150,000 records a second, which Spark's tasks do on two processors; where
# there are more, they are the quicker ones from some size on.
IN_PROCESS_RECORDS = 100_000 if processors() > 2 else sys.maxsize
# With shard placement, a process drops a shard that no task used in this many batches. A shard that one batch
# judges elsewhere (its executor was busy) stays cached there in case that happens again soon.
USED_WITHIN = 16


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Plain values.

    ``partitions``: tasks of the detecting stage. ``trigger_ms`` 0: a batch as soon as the one before is done.
    ``shards_held``: shards whose state a process may hold. ``one_machine``: tasks and all state are here, so that small
    batches may be one task or none, and large ones travel in files. ``in_process``: none, where that can be.
    ``placement``: tasks of a shard run on one executor, where Spark supports that. ``standby``: see ``ShardCache``.
    ``breaker``: the circuit breaker of rules without a bound of their own.
    ``tables``: where tasks that see no file of this machine find tables; the plan snapshot travels with each batch
    then. ``state``: where shards log their state, where that is not in the checkpoint's folder. ``topic``: where the
    tasks give decisions on all records; None: nowhere. ``records_max``: of a batch, from all topics; 0 where there are
    none. ``within_ms``: how long a batch of these should take.
    """

    name: str
    checkpoint: str
    partitions: int
    trigger_ms: int
    shards_held: int
    backfill: bool = True
    one_machine: bool = False
    in_process: bool = True
    placement: bool = False
    standby: bool = False
    breaker: Bound | None = None
    state: str | None = None
    tables: str | None = None
    topic: DecisionTopic | None = None
    records_max: int = 0
    within_ms: int = 5_000

    @property
    def state_root(self) -> str:
        """Where shards log their state."""
        return self.state or f"{self.checkpoint}/state"


class Planner:
    """How a batch is run: in stages, or in one task where the batch before was small.

    ``way``: which of them the batch that was planned last is.
    """

    def __init__(
        self, settings: PipelineSettings, stopping: threading.Event, placement: ShardPlacement | None = None
    ) -> None:
        self._settings = settings
        self._distribution = SnapshotDistribution(settings.tables, stopping) if settings.tables is not None else None
        self._placement = placement
        self._last_records = ONE_TASK_RECORDS + 1
        self.way = STAGES

    def plan(
        self,
        raw: Input,
        snapshot: SnapshotSource,
        cache: ShardCache,
        spill_folder: Path | None = None,
        task: Task | None = None,
        *,
        taken: bool = False,
    ) -> DataFrame:
        """The size of the last batch stands for this one's, not known before.

        ``spill_folder``: see ``in_stages``. ``task``: of the batch; None: its records are of the past. ``taken``:
        ``raw`` has the rows of the first stage, which was done ahead.
        """
        frame, intake = raw
        partitions = self._settings.partitions
        judge = StateServerJudge(snapshot, cache, partitions, self._settings.topic)
        if self._placement is not None:
            judge = self._placed(judge, self._placement, task)
        stages = stages_of(snapshot, intake, judge, kept=judge.topic is not None)
        small = self._settings.one_machine and self.small and not taken
        self.way = ONE_TASK if small else STAGES
        if taken:
            return in_stages(frame, stages[1:], partitions, spill_folder, self._placement)
        if small:
            return in_one_task(frame, stages)
        if self._placement is not None:
            frame = self._placement.taking_in(frame, topics=bool(self._settings.records_max))
        return in_stages(frame, stages, partitions, spill_folder, self._placement)

    def _placed(self, judge: StateServerJudge, placement: ShardPlacement, task: Task | None) -> StateServerJudge:
        """``judge`` for executors as they are now; new ones get ready to have it."""
        warmup = None if task is None else ExecutorWarmup(judge, replace(task, partitions=judge.state_servers))
        placement.refresh(warmup)
        cache = judge.cache
        if cache is None:
            return judge
        if placement.available:
            cache = replace(cache, used_within=USED_WITHIN)
        standby_of = placement.standby_of if cache.standby else ()
        return replace(judge, cache=cache, standby_of=standby_of, elsewhere=placement.several)

    def backfill(self, inputs: Sequence[Input], snapshot: SnapshotSource, cache: ShardCache) -> DataFrame:
        """The same of records of the past, of several streams."""
        if self._distribution is not None:
            snapshot = self._distribution.for_backfill(snapshot.current())
        return self.plan(union_of(inputs), snapshot, cache)

    def snapshot(self, file: SnapshotFile, snapshot: PlanSnapshot) -> SnapshotSource:
        """Where tasks find ``snapshot``, which the driver has in ``file``."""
        return file if self._distribution is None else self._distribution.for_batches(snapshot)

    @property
    def small(self) -> bool:
        """Whether the last batch was."""
        return self._last_records <= ONE_TASK_RECORDS

    def note_size(self, records: int) -> None:
        """A batch had so many records."""
        self._last_records = records


def in_process_runner(
    settings: PipelineSettings,
    sources: Sequence[SourcePlan],
    snapshot: SnapshotSource,
    cache: ShardCache,
    stopping: threading.Event,
) -> InProcessRunner | None:
    """What runs batches without a job; None: it is not to, tasks run elsewhere, or batches of a source are large."""
    java = started()
    clients = {source.stream: source.client for source in sources if source.client is not None}
    here = settings.one_machine and settings.in_process
    listed = {source.stream: source.listed for source in sources if source.listed is not None}
    if java is None or java.zygote is None or not here or len(clients) + len(listed) < len(sources):
        return None
    # It never waits: work that it cannot do at once goes to Spark's tasks, which can be ended.
    intakes = {s.stream: s.intake.hurried() if isinstance(s.intake, KafkaIntake) else s.intake for s in sources}
    folder = java.folder.path
    setup = Setup(snapshot, cache, settings.partitions, folder, intakes, clients, settings.topic, listed=listed)
    return InProcessRunner(folder / "zygote", setup, stopping)


def spill_folder_of(settings: PipelineSettings) -> Path | None:
    """Where tasks put what others of this machine read, within Java's folder; None where they may run elsewhere."""
    java = started()
    if java is None or not settings.one_machine:
        return None
    return java.folder.path / f"spill-{secrets.token_hex(8)}"


class Batches:
    """Runs one batch at a time; what is published comes in between (``changes``).

    ``began_s``: since when the batch that runs does, on the wall clock; None: none runs.

    ``in_process``: what runs batches without a job. ``way``: how the last one was run.

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
        self._ahead = input_ahead(
            spark, sources, settings.checkpoint, settings.partitions, self._spill_folder, stopping
        )
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
        publish_batch(self._spark, task.query_id, task.batch_id, task.began_ms or 0)
        try:
            snapshot = self._planner.snapshot(self._changes.file, self._changes.snapshot)
            rows = None
            if self._ahead is not None and not stored:
                rows = self._ahead.rows(task.batch_id, self._changes.snapshot)
            taken = rows is not None
            raw = frame() if rows is None else rows_frame(self._spark, rows)
            planned = self._planner.plan((raw, intake), snapshot, self._cache, self._spill_folder, task, taken=taken)
            outcome = self._ran(self._planner.way, collect_from_spark(planned, fetchers))
            if stored:
                outcome.figures[STORED] = 1
            if taken:
                outcome.figures[AHEAD] = 1
            return outcome
        finally:
            if self._spill_folder is not None:
                clear(self._spill_folder)

    def _ran(self, way: str, outcome: Outcome) -> Outcome:
        """``outcome`` with ``way`` in its figures."""
        self.way = outcome.figures[RAN] = way
        return outcome

    def small_max(self) -> int:
        """The most records of a small batch now."""
        return ONE_TASK_RECORDS if self.rate is None else min(ONE_TASK_RECORDS, self.rate.records)

    def close(self) -> None:
        """Let go of what runs batches."""
        if self._ahead is not None:
            self._ahead.close()
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
