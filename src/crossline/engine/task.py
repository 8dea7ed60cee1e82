"""What a task knows of the query that it runs for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql import SparkSession

# As Spark names them for the tasks of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_BEGAN = "crossline.batchBeganMs"


@dataclass(frozen=True, slots=True)
class Task:
    """The query, batch and partition of the running task; batch 0 of no query in a batch job.

    ``began_ms``: when its records were first read as this batch; a batch that is run again says the same.
    """

    query_id: str
    batch_id: int
    partition: int
    began_ms: int | None = None

    @staticmethod
    def now() -> Task:
        """Read from the task that is running; outside of Spark, a task of a batch job."""
        context = TaskContext.get()
        if context is None:
            return Task("", 0, 0)
        batch, began = context.getLocalProperty(_BATCH), context.getLocalProperty(_BEGAN)
        return Task(
            context.getLocalProperty(_QUERY) or "",
            int(batch) if batch else 0,
            context.partitionId(),
            int(began) if began else None,
        )


def tell_began(spark: SparkSession, began_ms: int) -> None:
    """Tasks of jobs that this thread starts are of a batch that began then.

    A property, and no column of the query: as a number in it, it would be compiled anew for every batch.
    """
    spark.sparkContext.setLocalProperty(_BEGAN, str(began_ms))


@contextmanager
def as_batch(spark: SparkSession, query_id: str, batch_id: int, began_ms: int) -> Iterator[None]:
    """Tasks of jobs that this thread starts are those of batch ``batch_id`` of ``query_id``."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in (_QUERY, _BATCH, _BEGAN)}
    context.setLocalProperty(_QUERY, query_id)
    context.setLocalProperty(_BATCH, str(batch_id))
    tell_began(spark, began_ms)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
