"""What a task knows of the query that it runs for."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext


@dataclass(frozen=True, slots=True)
class Task:
    """The query, batch and partition of the running task; batch 0 of no query in a batch job."""

    query_id: str
    batch_id: int
    partition: int

    @staticmethod
    def now() -> Task:
        """Read from the task that is running; outside of Spark, a task of a batch job."""
        context = TaskContext.get()
        if context is None:
            return Task("", 0, 0)
        batch = context.getLocalProperty("streaming.sql.batchId")
        return Task(
            context.getLocalProperty("sql.streaming.queryId") or "", int(batch) if batch else 0, context.partitionId()
        )
