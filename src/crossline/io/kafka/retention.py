"""Until when topics keep their records, by the settings that the brokers have for them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from crossline.basics.errors import SourceError
from crossline.basics.times import format_duration, format_instant
from crossline.io.kafka.client_factory import ADVICE, ClientErrors, client_of

ANSWER_S_MAX = 5.0
_POLICY, _MS, _BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
_DELETE = "delete"
_AWAY = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001 - the client's public names
_CHECK_MS = 300_000  # log.retention.check.interval.ms, by default; a setting of brokers


@dataclass(frozen=True, slots=True)
class Retention:
    """When a topic deletes records.

    Attributes:
        ms: A record may be deleted once it is so old; None: never because of its age.
        bytes: The oldest records of a partition are deleted once it has more bytes; None: never because of them.
        compacted: Whether older records of a key are deleted once there is a newer one.
    """

    ms: int | None
    bytes: int | None
    compacted: bool

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Retention:
        """From the settings of the topic by their names.

        >>> Retention.of({"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"})
        Retention(ms=604800000, bytes=None, compacted=False)
        """
        policies = policies_of(settings)
        ms, size = (_limit(settings[name]) if _DELETE in policies else None for name in (_MS, _BYTES))
        return cls(ms, size, "compact" in policies)


def policies_of(settings: Mapping[str, str]) -> set[str]:
    """What ``cleanup.policy`` says."""
    return {each.strip() for each in settings[_POLICY].split(",")}


def _limit(value: str) -> int | None:
    """A limit, where a negative number is none."""
    return None if int(value) < 0 else int(value)


def retention_of(topic: str, settings: Mapping[str, str]) -> Retention:
    """The retention of a topic.

    Args:
        topic: Its name.
        settings: Of the connection, as librdkafka has them.

    Raises:
        SourceError: The brokers do not answer, or this user may not describe the topic's configuration.
    """
    client = client_of(AdminClient, {**settings, "log_level": "0"})
    try:
        return Retention.of(_settings(client, topic))
    except (KafkaException, TimeoutError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else f"no answer in {ANSWER_S_MAX:.0f} s"
    except KeyError as error:
        reason = f"the brokers do not say its {error.args[0]}"
    raise SourceError(f"topic {topic}: its configuration cannot be read: {reason}; let this user describe the topic")


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """The settings of a topic.

    Attributes:
        deletes, compacts: What ``cleanup.policy`` says; both may be.
        retention_ms: ``retention.ms``; None: for ever.
        retention_bytes: ``retention.bytes``, of a partition; None: any number.
        segment_ms: ``segment.ms``: a segment goes as a whole, so a record waits for those of its segment.
        removal_ms: ``file.delete.delay.ms``.
        last_ms: The latest time of a record; None: there is none.
    """

    deletes: bool
    compacts: bool
    retention_ms: int | None
    retention_bytes: int | None
    segment_ms: int
    removal_ms: int
    last_ms: int | None

    @classmethod
    def of(cls, settings: Mapping[str, str], last_ms: int | None) -> TopicRetention:
        """From the settings by their names.

        >>> TopicRetention.of({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
        ...     "segment.ms": "604800000", "file.delete.delay.ms": "60000"}, None).until(0)
        'for ever: retention.ms and retention.bytes are -1'
        """
        known = Retention.of(settings)
        return cls(
            deletes=_DELETE in policies_of(settings),
            compacts=known.compacted,
            retention_ms=known.ms,
            retention_bytes=known.bytes,
            segment_ms=int(settings["segment.ms"]),
            removal_ms=int(settings["file.delete.delay.ms"]),
            last_ms=last_ms,
        )

    def until(self, now_ms: int) -> str:
        """Until when it keeps the records that it has at ``now_ms`` (epoch milliseconds), for people."""
        if self.last_ms is None:
            return "it has no records"
        ways = [self._compacted()] if self.compacts else []
        if self.deletes:
            ways.append(self._deleted(now_ms))
        if not ways:
            return "for ever: cleanup.policy deletes nothing"
        return "; or ".join(ways)

    def _compacted(self) -> str:
        return "compacted: until a tombstone, or a later record, of the same key"

    def _deleted(self, now_ms: int) -> str:
        by_size = f"a partition has {self.retention_bytes or 0:,} bytes after them (retention.bytes)"
        if self.retention_ms is None:
            if self.retention_bytes is None:
                return "for ever: retention.ms and retention.bytes are -1"
            return f"when {by_size}; retention.ms is -1"
        # The segment takes records for so long yet, and each keeps it; a sender's clock may be ahead.
        last_ms = max(now_ms, self.last_ms or now_ms) + self.segment_ms
        end_ms = last_ms + self.retention_ms + self.removal_ms + _CHECK_MS
        spans = f"retention.ms is {_span(self.retention_ms)}, segment.ms {_span(self.segment_ms)}"
        sooner = "" if self.retention_bytes is None else f"; sooner when {by_size}"
        return f"{_instant(end_ms)} at the latest ({spans}){sooner}"


def retention_texts(
    settings: Mapping[str, str], topics: Iterable[str], now_ms: int | None = None
) -> Iterator[tuple[str, str | None, str]]:
    """Until when topics keep the records that they have now.

    Args:
        settings: Of the connection, as librdkafka has them.
        topics: Their names.
        now_ms: Epoch milliseconds; None: the clock's.

    Yields:
        The topic; until when, for people, None where that cannot be found out; and then why not, else empty.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    errors = ClientErrors()
    client = client_of(AdminClient, settings, errors)
    lost = ""
    for topic in topics:
        if lost:
            yield topic, None, lost
            continue
        try:
            there = client.list_topics(topic, timeout=ANSWER_S_MAX).topics.get(topic)
            if there is None or there.error is not None:
                yield topic, None, "the brokers have no such topic, or do not show it to this user"
                continue
            known = TopicRetention.of(_settings(client, topic), _last_ms(client, topic, list(there.partitions)))
        except KafkaException as error:
            client.poll(0)
            reason = f"{errors.reason}; {ADVICE}" if errors.reason is not None else error.args[0].str()
            lost = reason if error.args[0].code() in _AWAY or errors.reason is not None else ""
            yield topic, None, reason
        except (KeyError, ValueError) as error:
            yield topic, None, f"the brokers do not say its {error.args[0]}"
        else:
            yield topic, known.until(now), ""


def _settings(client: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found: Mapping[str, Any] = client.describe_configs([resource], request_timeout=ANSWER_S_MAX)[resource].result(
        ANSWER_S_MAX
    )
    return {name: str(entry.value) for name, entry in found.items() if entry.value is not None}


def _last_ms(client: AdminClient, topic: str, partitions: list[int]) -> int | None:
    """The latest time of a record of the topic, 0 where records have none; None: there is no record."""
    first, after = (_listed(client, topic, partitions, each) for each in (OffsetSpec.earliest(), OffsetSpec.latest()))
    if all(after[each][0] <= first[each][0] for each in partitions):
        return None
    times = _listed(client, topic, partitions, OffsetSpec.max_timestamp())
    return max(0, *(time_ms for _, time_ms in times.values()))


def _listed(client: AdminClient, topic: str, partitions: list[int], spec: OffsetSpec) -> dict[int, tuple[int, int]]:
    """By partition, offset and time."""
    asked = {TopicPartition(topic, each): spec for each in partitions}
    found = client.list_offsets(asked, request_timeout=ANSWER_S_MAX)
    answers = {place.partition: each.result(ANSWER_S_MAX) for place, each in found.items()}
    return {number: (answer.offset, answer.timestamp) for number, answer in answers.items()}


def _span(ms: int) -> str:
    return format_duration(ms) if ms > 0 else f"{ms} ms"


def _instant(ms: int) -> str:
    try:
        return format_instant(ms)
    except (ValueError, OverflowError):
        return "the year 10000"
