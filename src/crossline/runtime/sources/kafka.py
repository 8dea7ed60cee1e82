"""Reading topics with Spark's Kafka source, for as long as they are the topics that the checkpoint reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from crossline.io.kafka.client import java_settings, librdkafka_settings, reading_settings
from crossline.io.kafka.lag import TopicLag, TopicStarts
from crossline.io.kafka.record_fetcher import KafkaRecordFetcher
from crossline.io.kafka.topics import TopicWatch
from crossline.io.registry.schema_store import SchemaStore
from crossline.runtime.snapshot.spark_log import next_offsets
from crossline.runtime.sources.intake import KafkaIntake
from crossline.runtime.sources.messages import HEADERS
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.settings.kafka import KafkaSourceSettings

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "value")
EARLIEST = -2  # as Spark writes "from the earliest offset there is"


@dataclass(frozen=True, slots=True)
class KafkaReader:
    """``options``: all options of Spark's source, secrets included; never printed. ``headers``: read these too."""

    options: Mapping[str, str]
    headers: bool = False

    def __repr__(self) -> str:
        return f"KafkaReader({self.options.get('subscribe')})"

    def stream(self, spark: SparkSession) -> DataFrame:
        """The topic as a streaming DataFrame of COLUMNS."""
        return self._columns(spark.readStream.format("kafka").options(**self.options).load())

    def _columns(self, frame: DataFrame) -> DataFrame:
        return frame.select(*COLUMNS, *((HEADERS,) if self.headers else ()))

    def history(self, spark: SparkSession, start: dict[str, Any] | None, end: dict[str, Any]) -> DataFrame:
        """The records between two offsets (topic -> partition -> offset), as a static DataFrame."""
        begin = {
            topic: {number: (start or {}).get(topic, {}).get(number, EARLIEST) for number in partitions}
            for topic, partitions in end.items()
        }
        settings = {
            k: v for k, v in self.options.items() if k not in {"subscribe", "startingOffsets", "maxOffsetsPerTrigger"}
        }
        settings |= {
            "assign": json.dumps({topic: [int(n) for n in partitions] for topic, partitions in end.items()}),
            "startingOffsets": json.dumps(begin),
            "endingOffsets": json.dumps(end),
        }
        return self._columns(spark.read.format("kafka").options(**settings).load())


def kafka_source(
    stream: str,
    source: KafkaSourceSettings,
    environment: Mapping[str, str],
    records_max: int,
    checkpoint: str,
    number: int,
    schemas: SchemaStore | None = None,
    *,
    headers: bool = False,
) -> SourcePlan:
    """The topics of ``source`` as source ``number`` of a pipeline, at most ``records_max`` records a batch.

    ``schemas``: their records are of Avro. ``headers``: those of the messages are read too.
    """
    reader = kafka_reader(source, environment, records_max, headers=headers)
    client = librdkafka_settings(source.brokers, source.security, environment)
    reading = reading_settings(source, environment)
    fetch = KafkaRecordFetcher(reading)
    topics = [topic.strip() for topic in source.topic.split(",") if topic.strip()]
    watch = TopicWatch(topics, client, Path(checkpoint) / "sources" / stream / "topics.json")

    def opened(spark: SparkSession) -> DataFrame:
        watch.begin(next_offsets(checkpoint, number))
        return reader.stream(spark)

    def close() -> None:
        fetch.close()
        watch.close()

    intake = KafkaIntake(stream, schemas)
    return SourcePlan(
        stream,
        opened,
        intake,
        fetch,
        reader.history,
        close,
        verify=watch.request,
        client=reading,
        waiting=TopicLag(client),
        first=TopicStarts(client),
        records_max=records_max,
    )


def schemas_of(source: KafkaSourceSettings, folder: str, environment: Mapping[str, str]) -> SchemaStore | None:
    """Where the schemas of the source's records are to be had, and kept (``folder``); None where they have none."""
    if source.registry is None:
        return None
    return SchemaStore.of(source.registry, folder, environment)


def kafka_reader(
    source: KafkaSourceSettings, environment: Mapping[str, str], records_max: int, *, headers: bool = False
) -> KafkaReader:
    """A reader of the source's topics (separated by commas), taking at most ``records_max`` records a batch."""
    return KafkaReader(
        {
            **{f"kafka.{name}": str(value) for name, value in source.options.items()},
            **java_settings(source.security, environment),
            "kafka.bootstrap.servers": source.brokers,
            "subscribe": source.topic,
            "startingOffsets": source.starting,
            "maxOffsetsPerTrigger": str(records_max),
            # A topic that lost records we had not read is an error to be reported, not skipped over.
            "failOnDataLoss": "true",
            **({"includeHeaders": "true"} if headers else {}),
        },
        headers,
    )
