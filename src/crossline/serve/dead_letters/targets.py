"""How mended records get into the streams of a pipeline, made of its sources."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from crossline.io.objects.location import is_uri
from crossline.io.registry.schema_store import SchemaStore
from crossline.runtime.snapshot.checkpoint_store import schemas_at
from crossline.serve.dead_letters.repair import AvroRepair, JsonRepair
from crossline.serve.dead_letters.resend import ResendTarget
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.values import RecordLog
from crossline.settings.config import PipelineConfig
from crossline.settings.kafka import KafkaSourceSettings

if TYPE_CHECKING:
    from crossline.io.recordlog.topic_search import TopicSearch


def ways_of(
    config: PipelineConfig, logs: Mapping[str, RecordLog], environment: Mapping[str, str] = os.environ
) -> dict[str, ResendTarget]:
    """By stream; of topics of Avro with logs of their own, which ``close_own`` lets go of.

    ``logs``: where the API puts records. Raises UsageError, PermanentError where a topic's settings cannot be.
    """
    records, found = StreamRecords(config.streams), dict[str, ResendTarget]()
    for stream, log in logs.items():
        source = config.sources[stream]
        look = _lookup(source, environment) if isinstance(source, KafkaSourceSettings) else None
        found[stream] = ResendTarget(JsonRepair(records, stream), log, look)
    for stream, source in _avro(config):
        from crossline.io.recordlog.topic import KafkaRecordLog  # noqa: PLC0415 - the client is an extra

        assert source.registry is not None  # noqa: S101 - a stream of Avro has one
        assert source.key is not None  # noqa: S101 - those without are left out
        look = _lookup(source, environment)
        folder = schemas_folder(config.engine.checkpoint, stream)
        store = SchemaStore.of(source.registry, folder, environment).hurried()
        mending = AvroRepair(stream, config.streams[stream], look.topic, source.key, store)
        log = KafkaRecordLog(source, look.topic, source.key, environment, encoded=True)
        found[stream] = ResendTarget(mending, log, look)
    return found


async def close_own(ways: Mapping[str, ResendTarget], logs: Mapping[str, RecordLog]) -> None:
    """Let go of the logs that are not among ``logs``."""
    for stream, way in ways.items():
        if stream not in logs:
            await way.log.close()


def schemas_folder(checkpoint: str, stream: str) -> str:
    """The folder of a checkpoint that keeps a registry's schemas of a stream."""
    return schemas_at(checkpoint, stream) if is_uri(checkpoint) else f"{checkpoint}/sources/{stream}/schemas"


def _avro(config: PipelineConfig) -> Iterator[tuple[str, KafkaSourceSettings]]:
    for stream, source in config.sources.items():
        if isinstance(source, KafkaSourceSettings) and source.registry is not None and source.key is not None:
            yield stream, source


def _lookup(source: KafkaSourceSettings, environment: Mapping[str, str]) -> TopicSearch:
    from crossline.io.recordlog.topic_search import TopicSearch  # noqa: PLC0415 - the client is an extra

    return TopicSearch(source, source.topic.split(",")[0].strip(), environment)
