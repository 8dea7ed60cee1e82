"""Answers of an earlier process whose records are in a topic: where, so that they are held to their own batches."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice

from crossline.connectors.recordlog.places import places_since
from crossline.core.basics.errors import RetryableError
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.kafka import KafkaSourceSettings
from crossline.core.streams.asked import Place
from crossline.logs import get_logger
from crossline.serve.decisions.settling import Settling

AGAIN_S = 5.0
AT_ONCE = 100

log = get_logger(__name__)


@asynccontextmanager
async def placing(
    config: PipelineConfig, settling: Settling, expected: Mapping[str, Collection[str]], since_ms: int
) -> AsyncIterator[None]:
    """Meanwhile find the ``expected`` ids, by stream, in their topics, from ``since_ms`` on, and tell ``settling``."""
    stop = threading.Event()  # a thread that reads is not cancelled
    finding = [
        asyncio.create_task(_found(config, settling, stream, ids, since_ms, stop))
        for stream, ids in expected.items()
        if ids and isinstance(config.sources.get(stream), KafkaSourceSettings)
    ]
    try:
        yield
    finally:
        stop.set()
        for each in finding:
            each.cancel()
        await asyncio.gather(*finding, return_exceptions=True)


async def _found(
    config: PipelineConfig,
    settling: Settling,
    stream: str,
    ids: Collection[str],
    since_ms: int,
    stop: threading.Event,
) -> None:
    """Until the topic was read once; brokers that are away are asked again."""
    source = config.sources[stream]
    assert isinstance(source, KafkaSourceSettings)  # noqa: S101 - who calls looked
    topic, id_field = source.topic.split(",")[0].strip(), config.streams[stream].id
    while True:
        try:
            places = places_since(source, topic, id_field, ids, since_ms, os.environ, stop.is_set)
            while some := await asyncio.to_thread(_part, places):
                for record_id, place in some:
                    settling.placed(stream, record_id, place)
        except RetryableError as error:
            log.warning("answers of before cannot be compared yet", stream=stream, error=str(error))
        except Exception:
            log.exception("answers of before that no rule holds at are not compared", stream=stream)
            return
        else:
            return
        await asyncio.sleep(AGAIN_S)


def _part(places: Iterator[tuple[str, Place]]) -> list[tuple[str, Place]]:
    return list(islice(places, AT_ONCE))
