"""The context of a Spark task: the batch that it runs, and its own metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext
from pyspark.sql import SparkSession

from crossline.runtime.work.task import Task

# As Spark names them for the tasks of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_BEGAN = "crossline.batchBeganMs"


def running_task(partitions: int) -> Task:
    """The task that is running, of ``partitions`` side by side; outside of Spark, one of a batch job."""
    context = TaskContext.get()
    if context is None:
        return Task(partitions=partitions)
    batch, began = context.getLocalProperty(_BATCH), context.getLocalProperty(_BEGAN)
    return Task(
        context.getLocalProperty(_QUERY) or "",
        int(batch) if batch else 0,
        context.partitionId(),
        partitions,
        int(began) if began else None,
    )


def publish_batch(spark: SparkSession, query_id: str, batch_id: int, began_ms: int) -> None:
    """Tasks of jobs that this thread starts are of this batch of the query, which began then.

    Properties, and no columns of the query: as a number in it, each would be compiled anew for every batch. Spark sets
    the first two in the query's own thread. They are set again here: a batch whose thread in Java had lost them was
    seen once, and its alerts would go out under another transactional id.
    """
    context = spark.sparkContext
    context.setLocalProperty(_QUERY, query_id)
    context.setLocalProperty(_BATCH, str(batch_id))
    context.setLocalProperty(_BEGAN, str(began_ms))


@contextmanager
def as_batch(spark: SparkSession, query_id: str, batch_id: int, began_ms: int) -> Iterator[None]:
    """Tasks of jobs that this thread starts are those of batch ``batch_id`` of ``query_id``."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in (_QUERY, _BATCH, _BEGAN)}
    publish_batch(spark, query_id, batch_id, began_ms)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
