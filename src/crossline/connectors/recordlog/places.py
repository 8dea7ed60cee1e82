"""Where records stand in a topic: found again by their ids, as a process must that comes after another one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from crossline.connectors.kafka.client import SILENT, reading_settings
from crossline.core.basics.errors import SourceError
from crossline.core.conditions.holds import lookup
from crossline.core.settings.kafka import KafkaSourceSettings
from crossline.core.streams.asked import Place

AT_ONCE = 5_000
ASK_S, LOOK_S, SILENT_S_MAX = 5.0, 0.2, 10.0


def places_since(
    settings: KafkaSourceSettings,
    topic: str,
    id_field: str,
    ids: Collection[str],
    since_ms: int,
    environment: Mapping[str, str] = os.environ,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[str, Place]]:
    """The place of each of ``ids`` that stands in ``topic`` with a time from ``since_ms`` on: of several the first.

    Reads what the topic has now, partition by partition, and no further once all are found.

    Args:
        settings: The source that the pipeline reads the topic by.
        topic: One of its topics.
        id_field: The field of the id, with dots where it is nested.
        ids: Those that are looked for.
        since_ms: Epoch milliseconds, on the clock of the messages' times.
        environment: Where passwords are.
        stopped: Asked now and then; once it says so, no more is read.

    Raises:
        SourceError: the brokers do not answer.
    """
    wanted = set(ids)
    own = {"group.id": "crossline-places", "enable.auto.commit": "false", "enable.partition.eof": "true"}
    consumer = Consumer({**reading_settings(settings, environment), **own, "log_level": "0"}, logger=SILENT)
    try:
        partitions = consumer.list_topics(topic, ASK_S).topics[topic].partitions
        asked = [TopicPartition(topic, number, since_ms) for number in partitions]
        for begin in consumer.offsets_for_times(asked, ASK_S) if asked else ():
            for message_id, place in _read(consumer, begin, id_field, stopped) if begin.offset >= 0 else ():
                if message_id in wanted:
                    wanted.discard(message_id)
                    yield message_id, place
                if not wanted:
                    return
    except KafkaException as error:
        raise SourceError(f"topic {topic} cannot be read now: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _read(
    consumer: Consumer, begin: TopicPartition, id_field: str, stopped: Callable[[], bool]
) -> Iterator[tuple[object, Place]]:
    """The id of each record of a partition from there to its end of now."""
    end = consumer.get_watermark_offsets(begin, ASK_S)[1]
    consumer.assign([begin])
    at, came_s = begin.offset, time.monotonic()
    while at < end and not stopped():
        messages = consumer.consume(AT_ONCE, LOOK_S)
        if messages:
            came_s = time.monotonic()
        elif time.monotonic() - came_s > SILENT_S_MAX:
            raise SourceError(
                f"topic {begin.topic}, partition {begin.partition}: the brokers give no record after {at}"
            )
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
                    return
                raise KafkaException(error)
            at = int(message.offset() or 0) + 1
            yield _id_of(message.value(), id_field), Place(f"{begin.topic}-{begin.partition}", at - 1)


def _id_of(value: bytes | None, id_field: str) -> object:
    """None of what others put there and nobody can read."""
    try:
        document = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None
    return lookup(document, id_field) if isinstance(document, dict) else None
