"""The stages of a batch in Spark: in stages of many tasks with a shuffle between them, or all in one task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from crossline.runtime.sources.intake import Intake, TaggedIntake
from crossline.runtime.spark.task import running_task
from crossline.runtime.spark_internals.shard_placement import ShardPlacement
from crossline.runtime.stages.rows import ArrowBatches, rows_of, stage_rows
from crossline.runtime.stages.spill import SpillBodies
from crossline.runtime.stages.stages import Stage, StageFunction, in_one
from crossline.runtime.work.rows import StageRows

Input = tuple[DataFrame, Intake]

# As a type, not as text, which Java would parse for each batch.
_ROWS = StructType(
    [
        StructField("stage", IntegerType()),
        StructField("shard", IntegerType()),
        StructField("kind", StringType()),
        StructField("body", BinaryType()),
    ]
)


def union_of(inputs: Sequence[Input]) -> Input:
    """Inputs as one: their rows side by side, each with the number of its input."""
    if len(inputs) == 1:
        return inputs[0]
    tagged = [
        frame.select(fn.lit(number).alias("input"), fn.struct("*").alias(f"rows{number}"))
        for number, (frame, _) in enumerate(inputs)
    ]
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    return reduce(union, tagged), TaggedIntake(tuple(intake for _, intake in inputs))


def in_stages(
    frame: DataFrame,
    stages: Sequence[Stage],
    partitions: int,
    spill_folder: Path | None = None,
    placement: ShardPlacement | None = None,
) -> DataFrame:
    """The output rows; each stage is one of Spark. Task s % ``partitions`` judges shard s where it is placed.

    ``spill_folder``: a folder for what goes from stage to stage, where all tasks are on one machine.
    """
    for stage in stages:
        if stage.by_shard:
            frame = frame.repartitionById(partitions, frame.shard % partitions)
            frame = frame if placement is None else placement.by_shard(frame)
        step = stage.step if spill_folder is None else SpillBodies(stage.step, spill_folder)
        frame = frame.mapInArrow(_in_task(step, partitions), _ROWS)
    return frame


def taken_in(frame: DataFrame, stage: Stage, partitions: int, spill_folder: Path) -> StageRows:
    """The rows that the first stage makes of ``frame``, for ``in_stages`` of the others."""
    step = SpillBodies(stage.step, spill_folder)
    return stage_rows(frame.mapInArrow(_in_task(step, partitions), _ROWS).toArrow())


def rows_frame(spark: SparkSession, rows: StageRows) -> DataFrame:
    """``rows`` of a stage, which were collected, as the input of the next."""
    return spark.createDataFrame(pa.Table.from_batches([rows_of(rows)]), _ROWS)


def in_one_task(frame: DataFrame, stages: Sequence[Stage]) -> DataFrame:
    """The same from one task for all stages and shards: for batches done before a shuffle would be."""
    return frame.coalesce(1).mapInArrow(_in_task(partial(in_one, stages), 1), _ROWS)


def _in_task(step: StageFunction, partitions: int) -> Callable[[ArrowBatches], ArrowBatches]:
    """``step`` as ``mapInArrow`` wants it."""

    def run(batches: ArrowBatches) -> ArrowBatches:
        return step(running_task(partitions), batches)

    return run
