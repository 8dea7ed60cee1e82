"""How a pipeline runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from crossline.basics.texts.validation import refusal
from crossline.basics.times import PARTITION_LAG_MS
from crossline.settings.fields import DurationMs, FolderOrUri, Settings, SparkSettings

SHARDS_MAX = 4096


def _check_shards(value: Any) -> Any:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= SHARDS_MAX):
        return value
    raise refusal(f"auto, or a whole number from 1 to {SHARDS_MAX}")


class EngineSettings(Settings):
    """How the pipeline runs; nothing here changes an answer."""

    trigger: DurationMs = Field(
        default=200,
        description="Pause between the starts of two batches; `0s` starts one as soon as the one before is done.",
    )
    shards: Annotated[Literal["auto"] | int, BeforeValidator(_check_shards)] = Field(
        default="auto",
        description="In how many parts keys are judged: `auto`, or 1 to 4096. A checkpoint keeps its own: `reshard`.",
    )
    checkpoint: FolderOrUri = Field(
        default="out/checkpoint",
        min_length=1,
        description="Where progress and state are: a folder, or `s3://BUCKET/PREFIX`, `hdfs://HOST:PORT/PATH`.",
    )
    master: str = Field(
        default="local[*]", min_length=1, description="Spark master; by default all cores of this machine."
    )
    spark: SparkSettings = Field(
        default={}, description="Settings of Spark, by its own names; they win over those that crossline makes."
    )
    python: str | None = Field(
        default=None, min_length=1, description="Python on machines of executors; by default that of the driver."
    )
    partition_lag: DurationMs = Field(
        default=PARTITION_LAG_MS,
        description="How far a record's ingest time may be behind the highest of its stream, because its partition "
        "or its sender's clock lags, and still find its windows whole. Records are kept that much longer.",
    )
    max_batch_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=1,
        description="Most bytes of one batch from files. Batches of a backlog begin with 64 MiB and grow while they "
        "take less than 3 s.",
    )
    max_batch_records: int = Field(
        default=300_000, ge=1, description="Most records of one batch from Kafka or the generator."
    )
    batch_within: DurationMs = Field(
        default=5_000,
        description="How long a batch of Kafka topics should take, or as long as `trigger` where that is longer: with "
        "batches that take longer, it reads less than it may. Small batches emit alerts sooner, large ones have "
        "a higher throughput.",
    )
    in_process: Literal["auto", "never"] = Field(
        default="auto",
        description="Where batches of Kafka topics, of files and of generated traffic on one machine are judged. "
        "`auto`: in processes beside Spark, whose query keeps offsets and commits; by Spark's tasks where that cannot "
        "be. `never`: each as a job of Spark's.",
    )
    standby: bool = Field(
        default=False,
        description="Whether the state of each shard is held twice: by a second process on this machine, and "
        "where there are several executors, by another one of these, which takes over where one is lost; while fewer "
        "than two are ready, by the driver's machine, which judges while none is. The state takes twice the memory; "
        "without it, its log is read again.",
    )
    backfill: bool = Field(
        default=True,
        description="Whether a rule that comes while the pipeline runs gets its past from the records kept.",
    )
