"""The stages over an input that is cut into slices, as one job of Spark.

A task takes in some slices. A task of a judging stage has a shard and goes through all slices in order; the shard's
state lives in that task and ends with it, so nothing is logged. Between two stages Spark shuffles rows by shard and
sorts them by slice, on disk where they are many: a task holds the rows of one slice at a time. The rows of the outcome
come to the driver slice by slice.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from crossline.basics.errors import CrosslineError, StoppedError
from crossline.runtime.sources.slices import Slices
from crossline.runtime.spark.failure import explained
from crossline.runtime.stages.rows import OUT, ArrowBatches
from crossline.runtime.stages.stages import Stage, StageFunction
from crossline.runtime.work.task import Task

# Of those that take in, and of those that hand the outcome to the driver: a shuffle has a block for each pair of tasks.
TASKS_MAX = 512
WATCH_S = 0.5
# Java hands a worker rows in batches of so many bytes; one batch of all rows of a shard would not fit memory.
_SETTINGS = {"spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20), "spark.sql.adaptive.enabled": "false"}
_SLICE = "slice"
_ROWS = StructType(
    [
        StructField(_SLICE, IntegerType()),
        StructField("stage", IntegerType()),
        StructField("shard", IntegerType()),
        StructField("kind", StringType()),
        StructField("body", BinaryType()),
    ]
)
_REFERENCES = pa.schema([(_SLICE, pa.int32()), ("reference", pa.binary())])

OnTasks = Callable[[int, int], None]
SliceRows = tuple[int, list[tuple[str, bytes]]]


def outcomes_of_slices(
    spark: SparkSession,
    slices: Slices,
    stages: Sequence[Stage],
    shards: int,
    stopping: threading.Event,
    on_tasks: OnTasks | None = None,
) -> Generator[SliceRows]:
    """Judge all slices; the number and the outcome rows (kind, body) of each slice, in order.

    Args:
        spark: The session.
        slices: The input.
        stages: The stages of a batch; the first one takes in.
        shards: How many shards there are; each is judged by one task.
        stopping: Once it is set, the job is cancelled.
        on_tasks: Called now and then with how many tasks of the running stage are done, and how many it has.

    Raises:
        StoppedError: ``stopping`` was set.
        CrosslineError: A task failed.
    """
    count = len(slices.references)
    if not count:
        return
    try:
        with _with_settings(spark), _watched(spark, stopping, on_tasks):
            frame = _planned(spark, slices, stages, shards)
            at, rows = 0, list[tuple[str, bytes]]()
            for number, kind, body in frame.toLocalIterator():
                if number != at:
                    yield at, rows
                    at, rows = number, []
                rows.append((kind, bytes(body)))
            yield at, rows
    except CrosslineError:
        raise
    except Exception as error:  # Spark's own, and those of py4j
        if stopping.is_set():
            raise StoppedError("stopped") from error
        raise explained(error) from error


def _planned(spark: SparkSession, slices: Slices, stages: Sequence[Stage], shards: int) -> DataFrame:
    count = len(slices.references)
    tasks = min(count, TASKS_MAX)
    references = pa.table([range(count), list(slices.references)], schema=_REFERENCES)
    frame = _in_slice_order(spark.createDataFrame(references), tasks, fn.floor(fn.col(_SLICE) * tasks / count))
    frame = frame.mapInArrow(TakeSlices(slices.read, stages[0].step), _ROWS)
    for stage in stages[1:]:
        # Rows of the outcome are for no task: they are spread.
        target = fn.when(frame.stage == OUT, fn.col(_SLICE)).otherwise(frame.shard) % shards
        frame = _in_slice_order(frame, shards, target)
        frame = frame.mapInArrow(InSlices(stage.step, count, shards), _ROWS)
    frame = frame.select(_SLICE, "kind", "body")
    return _in_slice_order(frame, tasks, fn.floor(fn.col(_SLICE) * tasks / count))


def _in_slice_order(frame: DataFrame, tasks: int, target: Column) -> DataFrame:
    return frame.repartitionById(tasks, target.cast("int")).sortWithinPartitions(_SLICE)


@dataclass(frozen=True, slots=True)
class TakeSlices:
    """References to the rows of the first stage, slice by slice."""

    read: Callable[[bytes], Iterator[pa.RecordBatch]]
    step: StageFunction

    def __call__(self, batches: ArrowBatches) -> ArrowBatches:
        """The rows of the slices."""
        for batch in batches:
            for number, reference in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield from _of_slice(number, self.step(Task(batch_id=number), self.read(reference)))


@dataclass(frozen=True, slots=True)
class InSlices:
    """The rows of a stage whose tasks have a shard each: its step is called for each of ``count`` slices, in order."""

    step: StageFunction
    count: int
    shards: int

    def __call__(self, batches: ArrowBatches) -> ArrowBatches:
        """The rows that come of the slices."""
        context = TaskContext.get()
        shard = 0 if context is None else context.partitionId()
        for number, rows in by_slice(batches, self.count):
            yield from _of_slice(number, self.step(Task("", number, shard, self.shards), iter(rows)))


def by_slice(batches: ArrowBatches, count: int) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Rows, which are in the order of their slices, slice by slice; slices without rows have none.

    Args:
        batches: Rows with the number of their slice in the first column, which is left out.
        count: How many slices there are.
    """
    at, held = 0, list[pa.RecordBatch]()
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        rest = batch.select(range(1, batch.num_columns))
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in itertools.pairwise(edges):
            if start == end:
                continue
            while at < numbers[start]:
                yield at, held
                at, held = at + 1, []
            held.append(rest.slice(start, end - start))
    while at < count:
        yield at, held
        at, held = at + 1, []


def _of_slice(number: int, batches: ArrowBatches) -> ArrowBatches:
    """The rows with the number of their slice before them."""
    for batch in batches:
        numbers = pa.repeat(pa.scalar(number, pa.int32()), len(batch))
        yield pa.RecordBatch.from_arrays([numbers, *batch.columns], names=_ROWS.names)


@contextmanager
def _with_settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            with suppress(Exception):  # a Spark that is gone has no settings
                spark.conf.unset(name) if known is None else spark.conf.set(name, known)


@contextmanager
def _watched(spark: SparkSession, stopping: threading.Event, on_tasks: OnTasks | None) -> Iterator[None]:
    """Jobs of this thread in here are cancelled where they are to stop; how far they are is reported."""
    context, tag, done = spark.sparkContext, f"crossline-{uuid.uuid4().hex}", threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_S):
            with suppress(Exception):  # likewise
                if stopping.is_set():
                    context.cancelJobsWithTag(tag)
                elif on_tasks is not None:
                    _report(context.statusTracker(), on_tasks)

    if stopping.is_set():
        raise StoppedError("stopped")
    context.addJobTag(tag)
    thread = threading.Thread(target=watch, name="watch-slices", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        context.removeJobTag(tag)


def _report(tracker: object, on_tasks: OnTasks) -> None:
    for stage in tracker.getActiveStageIds():  # type: ignore[attr-defined]
        info = tracker.getStageInfo(stage)  # type: ignore[attr-defined]
        if info is not None:
            on_tasks(info.numCompletedTasks, info.numTasks)
            return
