"""What a task knows of the query that it runs for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql import SparkSession

# As Spark names them for the tasks of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


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
        batch = context.getLocalProperty(_BATCH)
        return Task(context.getLocalProperty(_QUERY) or "", int(batch) if batch else 0, context.partitionId())


@contextmanager
def as_batch(spark: SparkSession, query_id: str, batch_id: int) -> Iterator[None]:
    """Tasks of jobs that this thread starts are those of batch ``batch_id`` of ``query_id``."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in (_QUERY, _BATCH)}
    context.setLocalProperty(_QUERY, query_id)
    context.setLocalProperty(_BATCH, str(batch_id))
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
