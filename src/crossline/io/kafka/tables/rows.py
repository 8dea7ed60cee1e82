"""The messages of a table's topic, of all its partitions: on from where the log stands, or from the beginning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription

from crossline.basics.errors import UsageError
from crossline.basics.message import TopicMessage
from crossline.io.kafka.client import SILENT
from crossline.io.kafka.control import SOON, cleanup, message_of
from crossline.logs import get_logger

log = get_logger(__name__)

_ASK_S = 1.0
_AGAIN_S = 10.0
_ANSWER_S = 5.0
_TOGETHER, _AT_ONCE = 5_000, 100_000
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # 16 zero bytes: from brokers that know no ids
_ABSENT = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}  # noqa: SLF001 - the client's public names


class RowTopicReader:
    """Reads a compacted topic of any number of partitions; one that is made anew, from its beginning.

    ``topic_id``: which topic of that name is read, None where it is not known. ``next``: by partition.
    """

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self.topic = topic
        self.topic_id: str | None = None
        self.next: dict[int, int] = {}
        self._settings = dict(settings)
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None
        self._partitions: set[int] = set()
        self._ended: set[int] = set()
        self._down: str | None = None
        self._requested_s = -_AGAIN_S
        self._request: Future[TopicDescription] | None = None
        self._logged: str | None = None

    def begin(self, offsets: Mapping[int, int], topic_id: str | None) -> None:
        """Go on at ``offsets`` of the topic with that id."""
        self.next, self.topic_id = dict(offsets), topic_id

    @property
    def whole(self) -> bool:
        """Whether the end of each partition was met."""
        return bool(self._partitions) and self._ended >= self._partitions

    @property
    def trouble(self) -> str | None:
        """Why nothing comes; None where it goes well."""
        return self._down

    def read(self, wait_s: float = 0.0) -> list[TopicMessage]:
        """Those that came since. Waits only for a first one.

        Raises UsageError where there is no such topic, or settings that the client refuses.
        """
        consumer = self._consumer = self._consumer or self._started()
        self._request_metadata(consumer)
        if not self._partitions:
            time.sleep(wait_s)
            self._log_state()
            return []
        messages: list[TopicMessage] = []
        try:
            while len(messages) < _AT_ONCE:
                found = consumer.consume(_TOGETHER, timeout=0.0 if messages else wait_s)
                for each in found:
                    error = each.error()
                    if error is None:
                        messages.append(message_of(each))
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
                        self._ended.add(int(each.partition() or 0))
                        self._down = None
                    else:
                        self._down, self._requested_s = (
                            error.str(),
                            min(self._requested_s, time.monotonic() - _AGAIN_S + _ASK_S),
                        )
                if len(found) < _TOGETHER:
                    break
        except KafkaException as error:
            self._down = error.args[0].str()
        for message in messages:
            self.next[message.partition] = message.offset + 1
        if messages:
            self._down = None
        self._log_state()
        return messages

    def compacted(self) -> bool:
        """Whether the topic keeps the last message of each key for good; no where that is not known."""
        try:
            return cleanup(self._settings, self.topic) == "compact"
        except KafkaException:
            return False

    def close(self) -> None:
        """Leave the brokers; safe to call twice."""
        consumer, self._consumer, self._partitions = self._consumer, None, set()
        self._admin = self._request = None
        if consumer is not None:
            consumer.close()

    def _started(self) -> Consumer:
        given = {**SOON, **self._settings, "group.id": "crossline-rows", "error_cb": self._failed}
        try:
            return Consumer(given, logger=SILENT)
        except KafkaException as error:
            raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None

    def _failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():  # noqa: SLF001 - the client's public name
            self._down = error.str()

    def _request_metadata(self, consumer: Consumer) -> None:
        """Which topic it is, and how many partitions it has by now. Waits for no answer."""
        now_s = time.monotonic()
        if self._request is None:
            if now_s < self._requested_s + (_AGAIN_S if self._partitions and self._down is None else _ASK_S):
                return
            self._requested_s = now_s
            self._admin = self._admin or AdminClient(dict(self._settings), logger=SILENT)
            described = self._admin.describe_topics(TopicCollection([self.topic]), request_timeout=_ANSWER_S)
            self._request = described[self.topic]
        if self._request.done():
            described, self._request = self._request, None
            try:
                self._use_cancel_token(consumer, described.result(0))
            except KafkaException as error:
                self._refused(error.args[0])

    def _refused(self, error: KafkaError) -> None:
        if error.code() in _ABSENT and not self._partitions:
            raise UsageError(
                f"found no topic {self.topic}; expected a compacted topic, whose messages are the rows of a table: "
                f"kafka-topics.sh --create --topic {self.topic} --config cleanup.policy=compact"
            )
        self._down = error.str()

    def _use_cancel_token(self, consumer: Consumer, found: TopicDescription) -> None:
        there, topic_id = {each.id for each in found.partitions}, str(found.topic_id)
        anew = topic_id != _NO_ID and self.topic_id not in {None, topic_id}
        anew = anew or (bool(self._partitions) and self._shorter(consumer))
        if anew:
            log.warning("the topic of a table was made anew; it is read from its beginning", topic=self.topic)
            self.next, self._ended = {}, set()
        if topic_id != _NO_ID:
            self.topic_id = topic_id
        if anew or there != self._partitions:
            self._ended &= there
            self._partitions = there
            consumer.assign([TopicPartition(self.topic, n, self.next.get(n, 0)) for n in sorted(there)])
        self._down = None

    def _shorter(self, consumer: Consumer) -> bool:
        """Whether a partition ends before what was read of it: from brokers that know no ids, one made anew."""
        for partition in self._partitions & self.next.keys():
            with suppress(KafkaException):
                place = TopicPartition(self.topic, partition)
                _, end = consumer.get_watermark_offsets(place, timeout=_ASK_S, cached=True)
                if 0 <= end < self.next[partition]:
                    return True
        return False

    def _log_state(self) -> None:
        if self._down is not None and self._logged is None:
            log.warning("the topic of a table cannot be read; the table stays", topic=self.topic, error=self._down)
        elif self._down is None and self._logged is not None:
            log.info("the topic of a table is read again", topic=self.topic)
        self._logged = self._down
