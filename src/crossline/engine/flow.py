"""The query plan of a batch: input -> take in -> detect -> outcomes, in two stages or in one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from crossline.engine.book import BookSource
from crossline.engine.source.intake import Intake, TaggedIntake
from crossline.engine.stages import OUTPUT_SCHEMA, PACKED_SCHEMA, detect_shards, in_one, take_in
from crossline.engine.state.cache import ShardCache

Input = tuple[DataFrame, Intake]


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


def wide(frame_in: Input, source: BookSource, cache: ShardCache | None, partitions: int) -> DataFrame:
    """Rows (kind, body) of what came out: two stages of many tasks; shard s is judged by task s % ``partitions``."""
    frame, intake = frame_in
    packed = frame.mapInArrow(take_in(source, intake), PACKED_SCHEMA)
    by_shard = packed.repartitionById(partitions, packed.shard % partitions)
    return by_shard.mapInArrow(detect_shards(source, cache, partitions, partitions), OUTPUT_SCHEMA)


def narrow(frame_in: Input, source: BookSource, cache: ShardCache | None, keepers: int) -> DataFrame:
    """The same rows from one task that takes in for all shards: for batches done before a shuffle would be."""
    frame, intake = frame_in
    return frame.coalesce(1).mapInArrow(in_one(source, intake, cache, keepers), OUTPUT_SCHEMA)
