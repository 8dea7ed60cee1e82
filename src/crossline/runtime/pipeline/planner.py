"""The settings of a pipeline, and how a batch is run as a job of Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame

from crossline.io.kafka.transactions.decision_topic import DecisionTopic
from crossline.rules.breaker import Bound
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile, SnapshotSource
from crossline.runtime.snapshot.snapshot_distribution import SnapshotDistribution
from crossline.runtime.spark.flow import Input, in_one_task, in_stages, union_of
from crossline.runtime.spark_internals.shard_placement import ShardPlacement
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.task import Task
from crossline.runtime.work.totals import ONE_TASK, STAGES
from crossline.runtime.workers.executor_warmup import ExecutorWarmup
from crossline.runtime.workers.state_servers import StateServerJudge

# Up to here one task is done before two stages would be: a shuffle and a second stage take some 40 ms.
ONE_TASK_RECORDS = 8_000
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
        """The size of the last batch stands for this one's, not known before; executors are those of ``place``.

        ``spill_folder``: see ``in_stages``. ``task``: of the batch; None: its records are of the past. ``taken``:
        ``raw`` has the rows of the first stage, which was done ahead.
        """
        frame, intake = raw
        partitions = self._settings.partitions
        judge = StateServerJudge(snapshot, cache, partitions, self._settings.topic)
        if self._placement is not None:
            if task is None:
                self._placement.refresh()
            judge = self._placed(judge, self._placement)
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

    def place(self, snapshot: SnapshotSource, cache: ShardCache, task: Task) -> ShardPlacement | None:
        """Before the batch of ``task``: which executors there are now; new ones get ready. None: there are none."""
        if self._placement is not None:
            judge = StateServerJudge(snapshot, cache, self._settings.partitions, self._settings.topic)
            self._placement.refresh(ExecutorWarmup(judge, replace(task, partitions=judge.state_servers)))
        return self._placement

    def _placed(self, judge: StateServerJudge, placement: ShardPlacement) -> StateServerJudge:
        """``judge`` for executors as they were at the last look."""
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
