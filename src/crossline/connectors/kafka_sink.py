"""Alerts to Kafka topics, keyed by the entity that they are about."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from crossline.connectors.base import Delivery, for_delivery, wall_clock_ms
from crossline.connectors.kafka_client import librdkafka_settings
from crossline.core import config_kafka
from crossline.core.alertjson import json_bytes
from crossline.core.errors import CrosslineError, PermanentError, SinkError, UsageError
from crossline.core.times import format_instant
from crossline.core.values import DeadLetter

# Errors that pass, by the protocol's own table and the client's own waiting in vain. The client marks an error as
# retriable only in transactions, so the mark alone would end a pipeline over a change of leader.
_PASSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # someone may create it; the message says so
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_CONTROLLER,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - the client's public constants are named so
    KafkaError._ISR_INSUFF,  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    KafkaError._PURGE_QUEUE,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
}
_NAME_HEADERS = ("alert_id", "dead_letter_id")


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A message; its first header is its name, by which it is sent once."""

    key: bytes | None
    value: bytes
    headers: dict[str, str]

    @property
    def name(self) -> str:
        return next(iter(self.headers.values()))


def _dead_message(letter: DeadLetter) -> _Outgoing:
    place = {"stream": letter.stream, "partition": letter.partition, "offset": str(letter.offset)}
    headers = {
        "dead_letter_id": "/".join([*place.values(), letter.reason]),
        "reason": letter.reason,
        "detail": letter.detail,
        **place,
    }
    key = letter.record_id.encode() if letter.record_id is not None else None
    return _Outgoing(key, letter.raw or b"", headers)


class KafkaSink:
    """Produces each alert to its rule's ``sink_topic``, else to ``topic``, and dead letters to a topic of their own.

    An alert's key is the entity it is about, its value JSON; the header ``alert_id`` names it. A dead letter's value is
    the record's bytes; headers say why and from where, ``dead_letter_id`` names it.

    Guarantee: at least once, and idempotent on the id: whatever is sent twice has the same one. The producer is
    idempotent with acks=all, so its own retries add nothing. What was acknowledged of a batch is not sent again by this
    process. After a start or a failure, the last ``dedupe_tail`` records of each of the topic's partitions are read
    back first (0: none), and what stands there is not sent again: exactly once over kills too, as long as the
    interrupted batch and what others wrote after it fit in that, and the broker was done with what a killed process had
    under way. Shadow alerts are never sent.

    ``timeout_ms``: how long a batch may take before it is tried again.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        options: Mapping[str, Any] | None = None,
        *,
        dead_letter_topic: str | None = None,
        dedupe_tail: int = 10_000,
        timeout_ms: int = 30_000,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._client = {"bootstrap.servers": brokers, "log_level": 3, **(options or {})}
        self._topic = topic
        self._dead_letter_topic = dead_letter_topic
        self._dedupe_tail = dedupe_tail
        self._timeout_ms = timeout_ms
        self._clock_ms = clock_ms
        self._producer: Producer | None = None
        self._tails: dict[str, set[str]] = {}
        self._batch_id: int | None = None
        self._acknowledged: set[tuple[str, str]] = set()
        self._failed: list[tuple[KafkaError, str]] = []

    @classmethod
    def from_settings(cls, settings: config_kafka.KafkaSink, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """The producer that ``settings`` describe; raises PermanentError where its password is not to be had."""
        options = {**settings.options, **librdkafka_settings(settings.brokers, settings.security, os.environ)}
        return cls(settings.brokers, settings.topic, options, dead_letter_topic=settings.dead_letter_topic)

    def open(self) -> None:
        """Start the client; raises UsageError where it refuses its settings.

        A broker that is away shows at the first delivery.
        """
        settings = {
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.timeout.ms": self._timeout_ms,
            **self._client,
            "enable.idempotence": True,
            "acks": "all",
        }
        try:
            self._producer = Producer(settings)
        except KafkaException as error:
            raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None

    def deliver(self, delivery: Delivery) -> None:
        """Send what is not there yet and wait until the brokers have it."""
        if delivery.batch_id != self._batch_id:
            self._batch_id = delivery.batch_id
            self._acknowledged.clear()
        try:
            self._send(delivery)
        except CrosslineError:
            self._start_again()
            raise

    def close(self) -> None:
        """Let go of the client; what was delivered is already acknowledged."""
        self._producer = None
        self._tails.clear()

    def _send(self, delivery: Delivery) -> None:
        self._failed = []
        sent: set[tuple[str, str]] = set()
        for topic, message in self._messages(delivery):
            if topic not in self._tails:
                self._tails[topic] = self._tail_ids(topic)
            place = (topic, message.name)
            if message.name in self._tails[topic] or place in self._acknowledged or place in sent:
                continue
            sent.add(place)
            self._produce(topic, message)
        left = self._running().flush(self._timeout_ms / 1000 + 1) if sent else 0
        if self._failed:
            raise _told(*self._failed[0])
        if left:
            raise SinkError(f"Kafka has not acknowledged {left} messages in {self._timeout_ms} ms")

    def _start_again(self) -> None:
        """After a failure nobody knows what of it was written: drop what is queued, and read the topics back."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.poll(0)
        self._tails.clear()

    def _running(self) -> Producer:
        if self._producer is None:
            self.open()
        if self._producer is None:
            raise PermanentError("the Kafka client did not start")
        return self._producer

    def _messages(self, delivery: Delivery) -> Iterator[tuple[str, _Outgoing]]:
        now = format_instant(self._clock_ms())
        for alert in for_delivery(delivery):
            value = json_bytes({**alert, "delivered_at": now})
            headers = {"alert_id": alert["alert_id"]}
            yield alert.get("sink_topic") or self._topic, _Outgoing(entity_key(alert["key"]), value, headers)
        if self._dead_letter_topic is not None:
            for letter in delivery.dead:
                yield self._dead_letter_topic, _dead_message(letter)

    def _produce(self, topic: str, message: _Outgoing) -> None:
        def acknowledged(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._acknowledged.add((topic, message.name))
            else:
                self._failed.append((error, topic))

        producer = self._running()
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                producer.produce(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=[(name, text.encode()) for name, text in message.headers.items()],
                    on_delivery=acknowledged,
                )
            except BufferError:
                producer.poll(0.1)  # the client's queue is full: let it drain
                if time.monotonic() > deadline:
                    raise SinkError(f"Kafka has taken nothing for topic {topic} in {self._timeout_ms} ms") from None
            except KafkaException as error:
                raise _told(error.args[0], topic) from None
            else:
                producer.poll(0)
                return

    def _tail_ids(self, topic: str) -> set[str]:
        """Alert ids of the last ``dedupe_tail`` records of each partition of ``topic``."""
        if self._dedupe_tail == 0:
            return set()
        consumer = Consumer(
            {**self._client, "group.id": "crossline-dedupe", "enable.auto.commit": False, "enable.partition.eof": True}
        )
        try:
            return _read_tail(consumer, topic, self._dedupe_tail, self._timeout_ms / 1000)
        except KafkaException as error:
            raise _told(error.args[0], topic) from None
        finally:
            consumer.close()


def _read_tail(consumer: Consumer, topic: str, count: int, timeout_s: float) -> set[str]:
    deadline = time.monotonic() + timeout_s
    found = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
    if found.error is not None:
        # A topic that is not there has nothing in it; whether it may be made, producing will tell.
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return set()
        raise KafkaException(found.error)
    waiting: dict[int, int] = {}
    starts = []
    for partition in found.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
        if high > low:
            waiting[partition] = high
            starts.append(TopicPartition(topic, partition, max(low, high - count)))
    consumer.assign(starts)
    ids: set[str] = set()
    while waiting:
        if time.monotonic() > deadline:
            raise SinkError(f"the end of topic {topic} could not be read back within {timeout_s:.0f} s")
        for message in consumer.consume(1000, timeout=0.2):
            _take(message, waiting, ids)
    return ids


def _take(message: Message, waiting: dict[int, int], ids: set[str]) -> None:
    """Note the id of ``message``; its partition is done at its end, or at the record before the watermark seen."""
    error = message.error()
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise KafkaException(error)
        waiting.pop(message.partition(), None)
        return
    headers = message.headers() or []
    ids.update(value.decode(errors="replace") for name, value in headers if name in _NAME_HEADERS and value)
    if message.offset() + 1 >= waiting.get(message.partition(), 0):
        waiting.pop(message.partition(), None)


def entity_key(key: Mapping[str, Any]) -> bytes | None:
    """The message key: the bytes of a single text value, else the JSON list of the values; None without any."""
    values = list(key.values())
    if not values:
        return None
    if len(values) == 1 and isinstance(values[0], str):
        return values[0].encode()
    return orjson.dumps(values)


def _told(error: KafkaError, topic: str) -> CrosslineError:
    """The client's error as ours; after a fatal one of the idempotent producer, a new producer may succeed."""
    text = f"Kafka did not take what goes to topic {topic}: {error.str()}"
    if error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:  # noqa: SLF001
        text += f"; create the topic {topic}"
    if error.retriable() or error.fatal() or error.code() in _PASSING:
        return SinkError(text)
    return PermanentError(text)
