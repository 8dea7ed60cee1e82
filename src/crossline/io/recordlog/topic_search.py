"""Reads the records of a topic after given offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaException, TopicPartition

from crossline.basics.errors import SourceError
from crossline.basics.streams.api_record import LogPosition
from crossline.io.kafka.client import SILENT, librdkafka_settings
from crossline.settings.kafka import KafkaSourceSettings

WITHIN_S, LOOK_S = 10.0, 60.0
NOWHERE: Mapping[str, int] = MappingProxyType({})
_AT_ONCE = 1_000


def read_tail(
    settings: KafkaSourceSettings,
    topic: str,
    ends: Mapping[str, int],
    environment: Mapping[str, str],
    most: int,
    within_s: float = WITHIN_S,
    wanted: Callable[[bytes], bool] = lambda _: True,
    until: Mapping[str, int] = NOWHERE,
) -> list[tuple[LogPosition, bytes, int]]:
    """The records of ``topic`` behind ``ends`` (by topic-partition, an offset), by partition in their order.

    Of each its place, its value, and its time in epoch ms; without tombstones. Up to where the topic ends now, ``most``
    at most. A partition that ``ends`` do not name is read from its beginning. Values that are not
    ``wanted`` are left out. ``until``: as ``ends``, where a partition is read no further.

    Raises SourceError where the brokers do not answer ``within_s``.
    """
    until_s = time.monotonic() + within_s
    security = librdkafka_settings(settings.brokers, settings.security, environment)
    own = {"group.id": "crossline-tail", "enable.auto.commit": False, "enable.partition.eof": False}
    found: list[tuple[LogPosition, bytes, int]] = []
    try:
        with closing(Consumer({**security, **own}, logger=SILENT)) as consumer:
            stretches = _stretches(consumer, topic, ends, until_s)
            upto = {number: min(end, until.get(f"{topic}-{number}", end)) for number, (_, end) in stretches.items()}
            left = {number: (begin, upto[number]) for number, (begin, _) in stretches.items() if begin < upto[number]}
            consumer.assign([TopicPartition(topic, number, begin) for number, (begin, _) in left.items()])
            while left and len(found) < most:
                if time.monotonic() > until_s:
                    raise SourceError(f"topic {topic}: what stands there could not be read within {within_s:g} s")
                for message in consumer.consume(_AT_ONCE, timeout=0.2):
                    if message.error() is not None:
                        raise SourceError(f"topic {topic} cannot be read now: {message.error()}")
                    number, at = int(message.partition() or 0), int(message.offset() or 0)
                    value = message.value()
                    if value is not None and number in left and at < left[number][1] and wanted(bytes(value)):
                        found.append((LogPosition(f"{topic}-{number}", at), bytes(value), message.timestamp()[1]))
                for each in consumer.position([TopicPartition(topic, number) for number in left]):
                    if each.offset >= left[each.partition][1]:  # also where transactions left nothing to read
                        del left[each.partition]
    except KafkaException as error:
        raise SourceError(f"topic {topic} cannot be read now: {error.args[0].str()}") from None
    found.sort(key=lambda each: (each[0].log, each[0].at))
    return found[:most]


def _stretches(consumer: Consumer, topic: str, ends: Mapping[str, int], until_s: float) -> dict[int, tuple[int, int]]:
    """The range of offsets of each partition with records to read."""
    partitions = consumer.list_topics(topic, timeout=max(0.1, until_s - time.monotonic())).topics[topic].partitions
    found = {}
    for number in partitions:
        left_s = max(0.1, until_s - time.monotonic())
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=left_s)
        begin = max(low, ends.get(f"{topic}-{number}", low))
        if begin < high:
            found[number] = (begin, high)
    return found


@dataclass(frozen=True, slots=True)
class TopicSearch:
    """Looks whether a record stands in a topic. Each call waits for brokers; SourceError where they do not answer."""

    settings: KafkaSourceSettings
    topic: str
    environment: Mapping[str, str]
    within_s: float = LOOK_S

    def ends(self) -> dict[str, int]:
        """By topic-partition, where it ends now."""
        security = librdkafka_settings(self.settings.brokers, self.settings.security, self.environment)
        try:
            with closing(Consumer({**security, "group.id": "crossline-tail"}, logger=SILENT)) as consumer:
                found = consumer.list_topics(self.topic, timeout=WITHIN_S).topics[self.topic]
                if found.error is not None:
                    raise SourceError(f"topic {self.topic} cannot be read now: {found.error}")
                return {
                    f"{self.topic}-{number}": consumer.get_watermark_offsets(
                        TopicPartition(self.topic, number), timeout=WITHIN_S
                    )[1]
                    for number in found.partitions
                }
        except KafkaException as error:
            raise SourceError(f"topic {self.topic} cannot be read now: {error.args[0].str()}") from None

    def find(self, ends: Mapping[str, int], raw: bytes) -> LogPosition | None:
        """The first place behind ``ends`` where ``raw`` stands; None: up to where the topic ends now it does not."""
        found = read_tail(self.settings, self.topic, ends, self.environment, 1, self.within_s, raw.__eq__)
        return found[0][0] if found else None

    def has(self, place: LogPosition, raw: bytes) -> bool:
        """Whether ``raw`` is what stands at ``place``."""
        ends = {**self.ends(), place.log: place.at}
        until = {**ends, place.log: place.at + 1}
        given = (self.settings, self.topic, ends, self.environment, 1, self.within_s, raw.__eq__)
        return [each for each, _, _ in read_tail(*given, until)] == [place]
