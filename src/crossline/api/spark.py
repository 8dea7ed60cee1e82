"""Detection on Spark DataFrames; it does not change the settings of their session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from crossline.api.declarations import Stream
from crossline.api.feature_queries import FigurePlan
from crossline.evaluate.alerts.alert import ALERT_SCHEMA, alert_table
from crossline.evaluate.alerts.alert_json import read_alerts
from crossline.runtime.snapshot.snapshot import PlanSnapshot, StaticSnapshot
from crossline.runtime.sources.frame_check import check_frame
from crossline.runtime.sources.intake import TableIntake
from crossline.runtime.spark.flow import in_stages
from crossline.runtime.stages.feature_table import FeatureBatch, FigureTypes
from crossline.runtime.stages.rows import FEATURE_ROWS
from crossline.runtime.stages.stages import stages_of
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.workers.state_servers import StateServerJudge

_NAMES = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double"}


def detect_in_spark(
    frame: DataFrame, snapshot: PlanSnapshot, stream: Stream, shards: int | None, state: str
) -> DataFrame:
    """The alerts of ``snapshot`` over ``frame``; see ``crossline.detect``."""
    schema = _for_spark(ALERT_SCHEMA)
    return _outcome(frame, snapshot, stream, shards, state).mapInArrow(_alerts, schema_text(schema))


def figures_in_spark(
    frame: DataFrame, snapshot: PlanSnapshot, plan: FigurePlan, stream: Stream, shards: int | None, state: str
) -> DataFrame:
    """The figures of every record of ``frame``; see ``crossline.figures``.

    One task joins the rows of a record from shards of several keys.
    """
    rows = _outcome(frame, snapshot, stream, shards, state).filter(f"kind = '{FEATURE_ROWS}'").repartition(1)
    return rows.mapInArrow(_table_of(plan.columns), schema_text(_for_spark(plan.columns.schema)))


def _outcome(frame: DataFrame, snapshot: PlanSnapshot, stream: Stream, shards: int | None, state: str) -> DataFrame:
    """The rows that shards give, as (stage, shard, kind, body)."""
    check_frame(frame, stream.name, stream.spec)
    count = shards or max(1, frame.sparkSession.sparkContext.defaultParallelism)
    snapshot = replace(snapshot, shards=count)
    snapshot.plans()  # a plan that does not compile raises here, not in a task
    cache = ShardCache(state, per_query=True, held_max=2 * count) if frame.isStreaming else None
    source = StaticSnapshot(snapshot.to_json())
    return in_stages(frame, stages_of(source, TableIntake(stream.name), StateServerJudge(source, cache, count)), count)


def _alerts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = _for_spark(ALERT_SCHEMA)
    for batch in batches:
        for kind, body in zip(batch.column("kind").to_pylist(), batch.column("body").to_pylist(), strict=True):
            if kind == "alerts":
                yield from alert_table(read_alerts(body)).cast(schema).to_batches()


def _table_of(columns: FigureTypes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bodies = [body for batch in batches for body in batch.column("body").to_pylist()]
        yield from FeatureBatch.of(bodies).table(columns).cast(_for_spark(columns.schema)).to_batches()

    return table


def _for_spark(schema: pa.Schema) -> pa.Schema:
    """``schema`` as Spark takes it: instants in microseconds."""
    return pa.schema([(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in schema])


def schema_text(schema: pa.Schema) -> str:
    """``schema`` as Spark writes schemas."""
    return ", ".join(f"`{f.name}` {_NAMES.get(f.type, 'timestamp')}" for f in schema)
