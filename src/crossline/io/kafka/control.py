"""Control topics: reads rules and lists as messages from the first offset, and sends them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType, TopicDescription, TopicMetadata

from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.basics.message import TopicMessage
from crossline.io.kafka.client import SILENT, headers_of
from crossline.logs import get_logger

if TYPE_CHECKING:
    from concurrent.futures import Future

log = get_logger(__name__)

_ASK_S = 1.0
_LOOK_S = 0.2
_AGAIN_S = 30.0
_ANSWER_S = 2.0
_TOGETHER, _AT_ONCE = 1_000, 100_000
_SENT_S_MAX = 30.0
_DURABLE = {"acks": "all", "enable.idempotence": True}
_NO_TIME = 0  # TIMESTAMP_NOT_AVAILABLE of the client
_OF_ONE = {KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT}  # noqa: SLF001 - the client's public names
# What is not read within two seconds of its publication is late: ask again soon after an outage, too.
SOON = {
    "group.id": "crossline-control",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 250,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 30_000,
}


class ControlTopicReader:
    """The messages of a control topic from its beginning on, and again from there where the topic is made anew.

    It has one partition: what was published first is a matter of order, which there is none across partitions.
    """

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._settings = dict(settings)
        self._consumer: Consumer | None = None
        self._assigned = False
        self._whole = False
        self._down: str | None = None
        self._why = ""
        self._next = 0
        self._broken = False
        self._logged: str | None = None
        self._requested_s = 0.0
        self._identity = _Identity(settings, topic)

    def read(self, wait_s: float = 0.0) -> tuple[list[TopicMessage], bool]:
        """The messages that came since, and whether the end was met since the first call. Waits only for a first one.

        Raises UsageError where there is no such topic, one of several partitions, or settings that the client refuses.
        """
        consumer = self._consumer = self._consumer or self._started()
        if not self._assigned and not self._assign(consumer):
            time.sleep(wait_s)
            return [], False
        messages: list[TopicMessage] = []
        while len(messages) < _AT_ONCE and (found := self._consume(consumer, 0.0 if messages else wait_s)):
            messages += [message_of(each) for each in found if each.error() is None]
            self._next = messages[-1].offset + 1 if messages else self._next
            for each in found:
                error = each.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
                    self._whole, self._down = True, None
                elif error is not None:
                    self._down, self._broken = error.str(), True
                else:
                    self._down = None
        self._ask_again(consumer)
        self._log_state()
        return messages, self._whole

    @property
    def trouble(self) -> str | None:
        """Why nothing comes."""
        return self._down

    def close(self) -> None:
        """Leave the brokers; safe to call twice."""
        self._leave()
        self._identity.close()

    def _leave(self) -> None:
        consumer, self._consumer, self._assigned = self._consumer, None, False
        if consumer is not None:
            consumer.close()

    def _started(self) -> Consumer:
        try:
            return Consumer({**SOON, **self._settings, "error_cb": self._failed}, logger=SILENT)
        except KafkaException as error:
            raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None

    def _consume(self, consumer: Consumer, wait_s: float) -> list[Message]:
        try:
            found: list[Message] = consumer.consume(_TOGETHER, timeout=wait_s)
        except KafkaException as error:
            self._down = error.args[0].str()
            return []
        return found

    def _assign(self, consumer: Consumer) -> bool:
        """Begin to read, where the brokers answer."""
        try:
            _check(self.topic, consumer.list_topics(self.topic, timeout=_ASK_S).topics[self.topic])
            self._identity.request()
            self._next = 0 if self._identity.is_another(_ANSWER_S) else self._next
            consumer.assign([TopicPartition(self.topic, 0, self._next)])
        except (KafkaException, TimeoutError) as error:
            self._down = self._why or (error.args[0].str() if isinstance(error, KafkaException) else "no answer")
            self._log_state()
            return False
        self._assigned, self._down = True, None
        self._check_kept()
        return True

    def _ask_again(self, consumer: Consumer) -> None:
        """Whether unreachable brokers are back: a topic without new messages shows nothing else.

        And whether the topic is the one that was read: the client would wait for ever for an offset of the old one, or
        go on in the midst of the new one.
        """
        with suppress(KafkaException, TimeoutError):
            if self._identity.is_another():
                self._next = 0
                self._leave()
                return
        now_s = time.monotonic()
        if now_s < self._requested_s + (_ASK_S if self._down is not None else _AGAIN_S):
            return
        self._requested_s = now_s
        self._identity.request()
        with suppress(KafkaException):
            _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=_LOOK_S)
            if self._broken or end < self._next:
                self._next = self._next if self._next <= end else 0
                self._leave()  # a client that met another topic of this name goes on to ask for the old one
            self._down, self._broken = None, False

    def _check_kept(self) -> None:
        """Tell where the topic forgets what is not repeated."""
        with suppress(KafkaException):
            policy = cleanup(self._settings, self.topic)
            if policy is not None and "compact" not in policy.split(","):
                log.warning(
                    "a control topic is not compacted: what is older than its retention is gone for a pipeline that "
                    "begins later, and this one goes on by its rule log",
                    topic=self.topic,
                    found=f"cleanup.policy={policy}",
                    expected="cleanup.policy=compact",
                )

    def _failed(self, error: KafkaError) -> None:
        """Note an error of the client. A single lost connection is ignored; the client reports the loss of all."""
        if error.code() in _OF_ONE:
            self._why = error.str()
        else:
            self._down = f"{error.str()}: {self._why}" if self._why else error.str()

    def _log_state(self) -> None:
        if self._down is not None and self._logged is None:
            log.warning("a control topic cannot be read; rules stay as they are", topic=self.topic, error=self._down)
        elif self._down is None and self._logged is not None:
            log.info("a control topic is read again", topic=self.topic)
        self._logged = self._down


class _Identity:
    """Asks the brokers for the cleanup policy of a topic, and for its id, which shows that it was created anew."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._client: AdminClient | None = None
        self._known: str | None = None
        self._request: Future[TopicDescription] | None = None

    def request(self) -> None:
        """Ask which topic it is; ``is_another`` has the answer."""
        found = self._admin().describe_topics(TopicCollection([self._topic]), request_timeout=_ANSWER_S)
        self._request = found[self._topic]

    def is_another(self, wait_s: float = 0.0) -> bool:
        """Whether the answer names another topic than the one before; of brokers that know no ids, none does.

        Raises KafkaException where the brokers refuse to answer, TimeoutError where they have not answered yet.
        """
        if self._request is None:
            return False
        try:
            found = str(self._request.result(wait_s).topic_id)
        except KafkaException:
            self._request = None
            raise
        self._request = None
        known, self._known = self._known, found
        return known not in {None, found}

    def close(self) -> None:
        """Leave the brokers; what is known stays."""
        self._client = self._request = None

    def _admin(self) -> AdminClient:
        self._client = self._client or AdminClient(dict(self._settings), logger=SILENT)
        return self._client


class ControlTopicWriter:
    """Sends messages to a topic, each acknowledged by all replicas, in their order."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._producer = Producer({"linger.ms": 0, **settings, **_DURABLE}, logger=SILENT)

    def send(self, key: str, value: bytes | None, headers: Mapping[str, str]) -> int:
        """Send one message and wait for it; its offset.

        Raises SinkError where it is not acknowledged in time, PermanentError where the topic rejects it.
        """
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            errors.append(error) if error is not None else offsets.append(int(message.offset() or 0))

        try:
            named = [(name, text.encode()) for name, text in headers.items()]
            self._producer.produce(self.topic, key=key.encode(), value=value, headers=named, on_delivery=answered)
        except KafkaException as error:
            raise PermanentError(f"{key} cannot be sent to topic {self.topic}: {error.args[0].str()}") from None
        if self._producer.flush(_SENT_S_MAX):
            self._producer.purge()
            sentence = f"topic {self.topic} has not acknowledged {key} in {_SENT_S_MAX:.0f} s"
            raise SinkError(f"{sentence}: see that its brokers are up, and what stands there")
        if errors:
            raise PermanentError(f"topic {self.topic} does not take {key}: {errors[0].str()}")
        return offsets[0]


def _check(topic: str, found: TopicMetadata) -> None:
    """Raise UsageError where it is no control topic, KafkaException where that is not known."""
    if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(found.error)
    if found.error is not None or not found.partitions:
        raise UsageError(
            f"found no topic {topic}; expected a compacted topic of one partition: kafka-topics.sh --create --topic "
            f"{topic} --partitions 1 --config cleanup.policy=compact --config message.timestamp.type=LogAppendTime"
        )
    if len(found.partitions) != 1:
        raise UsageError(
            f"control topic {topic}: found {len(found.partitions)} partitions; expected one, since what was published "
            "first is a matter of order: make another topic, and publish there"
        )


def cleanup(settings: Mapping[str, str], topic: str) -> str | None:
    """The topic's cleanup.policy; None where the brokers do not report it. Raises KafkaException."""
    admin = AdminClient(dict(settings), logger=SILENT)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = admin.describe_configs([resource], request_timeout=_ANSWER_S)[resource].result(_ANSWER_S)
    except TimeoutError:
        return None
    return str(found["cleanup.policy"].value) if "cleanup.policy" in found else None


def message_of(message: Message) -> TopicMessage:
    """The client's message as a plain value."""
    kind, at_ms = message.timestamp()
    return TopicMessage(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        key=message.key(),
        value=message.value(),
        headers=headers_of(message),
        at_ms=at_ms if kind != _NO_TIME else None,
    )


class ControlTopicPublisher:
    """Sends messages to a topic asynchronously; ``answers`` returns their delivery reports."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self._settings = dict(settings)
        self._producer: Producer | None = None
        self._answers: dict[int, str | None] = {}

    def post(self, number: int, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
        """Send one message; ``answers`` returns its delivery report under ``number``."""
        if self._producer is None:
            self._producer = Producer({"linger.ms": 5, **self._settings, **_DURABLE}, logger=SILENT)

        def answered(error: KafkaError | None, _: Message) -> None:
            self._answers[number] = None if error is None else error.str()

        try:
            named = [(name, text.encode()) for name, text in headers.items()]
            self._producer.produce(self.topic, key=key, value=value, headers=named, on_delivery=answered)
        except (KafkaException, BufferError) as error:
            self._answers[number] = str(error)

    def answers(self) -> dict[int, str | None]:
        """Delivery reports since the last call, by number: None where the brokers have the message, else the error."""
        if self._producer is not None:
            self._producer.poll(0)
        answers, self._answers = self._answers, {}
        return answers

    def close(self, wait_s: float = 2.0) -> dict[int, str | None]:
        """Close the client after at most ``wait_s`` for messages in flight; the last delivery reports."""
        producer, self._producer = self._producer, None
        if producer is not None and producer.flush(wait_s):
            producer.purge()
            producer.flush(0)
        return self.answers()
