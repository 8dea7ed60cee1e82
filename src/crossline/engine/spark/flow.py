"""The hops of a batch in Spark: in stages of many tasks with a shuffle between them, or all in one task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from crossline.engine.hops.aside import PutAside
from crossline.engine.hops.hops import Hop, Step, in_one
from crossline.engine.hops.rows import ArrowBatches
from crossline.engine.source.intake import Intake, TaggedIntake
from crossline.engine.spark.homes import Homes
from crossline.engine.spark.task import running_task

Input = tuple[DataFrame, Intake]

# As a type, not as text, which Java would be asked to read for each batch anew.
_ROWS = StructType(
    [
        StructField("hop", IntegerType()),
        StructField("shard", IntegerType()),
        StructField("kind", StringType()),
        StructField("body", BinaryType()),
    ]
)


def together(inputs: Sequence[Input]) -> Input:
    """Inputs as one: their rows side by side, each with the number of its input."""
    if len(inputs) == 1:
        return inputs[0]
    tagged = [
        frame.select(fn.lit(number).alias("input"), fn.struct("*").alias(f"rows{number}"))
        for number, (frame, _) in enumerate(inputs)
    ]
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    return reduce(union, tagged), TaggedIntake(tuple(intake for _, intake in inputs))


def wide(
    frame: DataFrame, hops: Sequence[Hop], partitions: int, aside: Path | None = None, homes: Homes | None = None
) -> DataFrame:
    """What came out: a stage a hop; shard s is judged by task s % ``partitions``, at its home where there are homes.

    ``aside``: a folder for what goes from stage to stage, where all tasks are on one machine.
    """
    for hop in hops:
        if hop.by_shard:
            frame = frame.repartitionById(partitions, frame.shard % partitions)
            frame = frame if homes is None else homes.at_home(frame)
        step = hop.step if aside is None else PutAside(hop.step, aside)
        frame = frame.mapInArrow(_in_task(step, partitions), _ROWS)
    return frame


def narrow(frame: DataFrame, hops: Sequence[Hop]) -> DataFrame:
    """The same from one task for all hops and shards: for batches done before a shuffle would be."""
    return frame.coalesce(1).mapInArrow(_in_task(partial(in_one, hops), 1), _ROWS)


def _in_task(step: Step, partitions: int) -> Callable[[ArrowBatches], ArrowBatches]:
    """``step`` as ``mapInArrow`` wants it."""

    def run(batches: ArrowBatches) -> ArrowBatches:
        return step(running_task(partitions), batches)

    return run
