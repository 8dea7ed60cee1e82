"""What a new executor does before it gets shards: its Python loads, and its state servers read the states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from crossline.runtime.spark_internals.joining_executors import TaskFunction
from crossline.runtime.stages.rows import ArrowBatches
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.work.task import Task
from crossline.runtime.workers.state_servers import StateServerJudge, read_now


@dataclass(frozen=True, slots=True)
class ExecutorWarmup:
    """As of the batch of ``task``, which ``judge`` judges in so many partitions (see ``JoiningExecutors``)."""

    judge: StateServerJudge
    task: Task

    @property
    def batch_id(self) -> int:
        """Of the batch."""
        return self.task.batch_id

    def tasks(self, judged: Collection[int], followed: Collection[int]) -> TaskFunction:
        """What its tasks do. There is one for each core, so each has a worker afterwards; the first one reads."""
        cache, task = self.judge.cache, self.task
        parts = {*judged, *(followed if cache is not None and cache.standby else ())}

        def run(batches: ArrowBatches) -> ArrowBatches:
            for batch in batches:
                if 0 in batch.column("id").to_pylist():
                    shards = range(self.judge.source.current().shards)
                    work = ShardJudge(self.judge.source, cache, task.query_id, task.batch_id)
                    read_now(work, [s for s in shards if s % task.partitions in parts], self.judge.state_servers)
                yield batch

        return run
