"""The query plan: input -> take in -> one partition per shard -> detect -> outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame

from crossline.engine.book import BookSource
from crossline.engine.cache import ShardCache
from crossline.engine.intake import Intake
from crossline.engine.stages import OUTPUT_SCHEMA, PACKED_SCHEMA, detect_shards, take_in


def outcomes(
    inputs: Sequence[tuple[DataFrame, Intake]],
    source: BookSource,
    partitions: int,
    cache: ShardCache | None,
) -> DataFrame:
    """Rows (kind, body) of everything that came out of ``inputs``, each a DataFrame with the way to read its rows.

    ``partitions``: tasks of the detecting stage; shard s is judged by task s % partitions.
    """
    packed = [frame.mapInArrow(take_in(source, intake), PACKED_SCHEMA) for frame, intake in inputs]
    together = reduce(DataFrame.unionByName, packed)
    by_shard = together.repartitionById(partitions, together.shard % partitions)
    return by_shard.mapInArrow(detect_shards(source, cache, partitions), OUTPUT_SCHEMA)
