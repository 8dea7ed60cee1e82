"""Sends messages to Kafka and returns the rejected ones; reads the ids at the end of a topic back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import TopicMetadata

from crossline.basics.errors import SinkError
from crossline.io.kafka.client import headers_of
from crossline.io.kafka.client_factory import ClientErrors, client_of
from crossline.io.kafka.messages import NAME_HEADERS, Outgoing
from crossline.io.net.deadline import Deadline, NoAnswerError, within
from crossline.logs import get_logger

ANSWER_S = 10.0
# Messages between two polls for their reports. A poll releases the interpreter, and a thread that computes keeps it for
# milliseconds then: with a poll after each message, 60,000 messages took minutes beside two sinks at work.
POLL_EACH = 1_000
_ASK_S = 1.0
_LOOK_S = 0.1
_UNANSWERED = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001

Refused = list[tuple[Outgoing, KafkaError]]
Result = TypeVar("Result")

log = get_logger(__name__)


class KafkaDeadline(Deadline):
    """A deadline that the loops of a Kafka client poll: ``seconds``, and at most one second once ``stop`` is set."""

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return not self.left_s()


class AbandonedError(Exception):
    """A call has not returned in time. It still runs: do not use its client again."""


def call_with_timeout(call: Callable[[], Result], seconds: float, stop: threading.Event) -> Result:
    """The result of ``call``. Raises AbandonedError after ``seconds``, or one second after ``stop`` is set.

    For client calls that may never return. librdkafka sends the offsets of a transaction to the group's coordinator
    without checking its time-out (its issue 5456). Where that coordinator has left the list of brokers, as happens when
    a single broker is killed and restarted, librdkafka waits for it for ever (its issue 5511).
    """
    try:
        return within(Deadline(seconds, stop), call, "kafka-call")
    except NoAnswerError:
        raise AbandonedError from None


class IdempotentProducer:
    """Two idempotent producers with the same settings: one sends batches, the other each message in its own batch.

    A broker rejects a batch as a whole, for the size of one message or of all together. Unbatched, each message has its
    own answer. ``on_delivered`` is called with each message that the brokers acknowledged.
    """

    def __init__(self, client: Mapping[str, Any], timeout_ms: int, on_delivered: Callable[[Outgoing], None]) -> None:
        self._settings: dict[str, Any] = {
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.timeout.ms": timeout_ms,
            **client,
            "enable.idempotence": True,
            "acks": "all",
        }
        self._timeout_ms = timeout_ms
        self._on_delivered = on_delivered
        self.stop = threading.Event()
        self.client_errors = ClientErrors()
        self._batched: Producer | None = None
        self._unbatched: Producer | None = None

    @property
    def bytes_max(self) -> int:
        """The largest message that the client accepts, in bytes."""
        return int(self._settings.get("message.max.bytes", 1_000_000))

    def open(self) -> None:
        """Start the client. Raises UsageError where its settings are invalid."""
        self._batched = self._batched or client_of(Producer, self._settings, self.client_errors)

    def send(self, messages: Iterable[Outgoing], *, unbatched: bool = False) -> Refused:
        """Send ``messages``, wait for the delivery reports, and return the rejected messages with their errors.

        Raises SinkError where a report is missing at the deadline.
        """
        refused: Refused = []
        producer: Producer | None = None
        for nth, message in enumerate(messages):
            producer = producer or self._producer(unbatched=unbatched)
            self._produce(producer, message, refused)
            if (nth + 1) % POLL_EACH == 0:
                producer.poll(0)
        deadline = KafkaDeadline(self._timeout_ms / 1000 + 1, self.stop)
        while producer is not None and (left := producer.flush(_LOOK_S)):
            if deadline.expired:
                text = f"Kafka has not acknowledged {left} messages in {self._timeout_ms} ms"
                raise SinkError(text + self.client_errors.reason_suffix())
        return refused

    def drop(self) -> None:
        """Close the clients and drop their queued messages."""
        for producer in (self._batched, self._unbatched):
            if producer is not None:
                producer.purge()
                producer.poll(0)
        self._batched = self._unbatched = None

    def _producer(self, *, unbatched: bool) -> Producer:
        if unbatched:
            self._unbatched = self._unbatched or client_of(
                Producer, {**self._settings, "batch.num.messages": 1, "linger.ms": 0}
            )
            return self._unbatched
        self._batched = self._batched or client_of(Producer, self._settings, self.client_errors)
        return self._batched

    def _produce(self, producer: Producer, message: Outgoing, refused: Refused) -> None:
        def answered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._on_delivered(message)
            else:
                refused.append((message, error))

        deadline: KafkaDeadline | None = None
        while True:
            try:
                producer.produce(
                    message.topic,
                    key=message.key,
                    value=message.value,
                    headers=[(name, text.encode()) for name, text in message.headers.items()],
                    on_delivery=answered,
                )
            except BufferError:
                deadline = deadline or KafkaDeadline(self._timeout_ms / 1000, self.stop)
                producer.poll(0.1)  # the client's queue is full: let it drain
                if deadline.expired:
                    text = f"Kafka has acknowledged nothing for topic {message.topic} in {self._timeout_ms} ms"
                    raise SinkError(text + self.client_errors.reason_suffix()) from None
            except KafkaException as error:
                refused.append((message, error.args[0]))
                return
            else:
                return


def log_cut_message(whole: Outgoing, cut: Outgoing) -> None:
    """Log that a message was truncated."""
    log.warning(
        "a message is larger than its topic takes, and was sent cut",
        topic=whole.topic,
        name=whole.name,
        bytes=whole.size,
        sent=cut.size,
    )


def names_at_end(client: Mapping[str, Any], topic: str, count: int, deadline: KafkaDeadline) -> set[str]:
    """Names of the last ``count`` messages of each partition of ``topic``.

    Raises KafkaException as the client does, and SinkError where they do not arrive in time.
    """
    client_errors = ClientErrors()
    reading = {"group.id": "crossline-dedupe", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = client_of(Consumer, {**client, **reading}, client_errors)
    try:
        return _read_tail(consumer, topic, count, deadline, client_errors)
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str, deadline: KafkaDeadline, client_errors: ClientErrors) -> TopicMetadata:
    while True:
        try:
            return consumer.list_topics(topic, timeout=_ASK_S).topics[topic]
        except KafkaException as error:
            consumer.poll(0)
            if client_errors.reason is not None:
                raise SinkError(
                    f"the end of topic {topic} could not be read back{client_errors.reason_suffix()}"
                ) from error
            if deadline.expired or error.args[0].code() not in _UNANSWERED:
                raise


def _read_tail(
    consumer: Consumer, topic: str, count: int, deadline: KafkaDeadline, client_errors: ClientErrors
) -> set[str]:
    found = _partitions(consumer, topic, deadline, client_errors)
    if found.error is not None:
        # A topic that does not exist is empty. Producing shows whether the broker creates it.
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return set()
        raise KafkaException(found.error)
    waiting: dict[int, int] = {}
    starts = []
    for partition in found.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_S)
        if high > low:
            waiting[partition] = high
            starts.append(TopicPartition(topic, partition, max(low, high - count)))
    consumer.assign(starts)
    names: set[str] = set()
    while waiting:
        if deadline.expired:
            raise SinkError(f"the end of topic {topic} could not be read back in time")
        for message in consumer.consume(1000, timeout=0.2):
            _take(message, waiting, names)
    return names


def _take(message: Message, waiting: dict[int, int], names: set[str]) -> None:
    """Note the name of ``message``; its partition is done at its end event, or at the record before the watermark."""
    error = message.error()
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise KafkaException(error)
        waiting.pop(message.partition(), None)
        return
    names.update(v.decode(errors="replace") for name, v in headers_of(message) if name in NAME_HEADERS and v)
    if message.offset() + 1 >= waiting.get(message.partition(), 0):
        waiting.pop(message.partition(), None)
