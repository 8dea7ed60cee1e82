"""Messages that topics are given once, batch by batch: in one transaction with the number of their batch.

The number is what a consumer group has committed as its offset in partition 0 of the topic: a consumer group that
reads nothing, of the same name as the transactional id. Beside it stands when the batch was planned, for a number may
come to mean another batch: where an older copy of a checkpoint is put back. Whoever begins under that name ends what
others have under way under it, and reads the numbers then. So of each batch all stands in a topic, or nothing, and
once, whichever processes are killed, frozen or doubled: for those who read committed records.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from crossline.basics.errors import CrosslineError, SinkError
from crossline.io.kafka.client_factory import ClientErrors, client_of
from crossline.io.kafka.decision_messages import NAME, DecisionMessages
from crossline.io.kafka.errors import (
    OF_ANOTHER,
    TOO_LARGE,
    open_transaction_error,
    other_batch_error,
    passes,
    raise_any,
    sink_error_of,
    transaction_error,
)
from crossline.io.kafka.idempotent_producer import (
    POLL_EACH,
    AbandonedError,
    KafkaDeadline,
    Refused,
    call_with_timeout,
    log_cut_message,
)
from crossline.io.kafka.messages import END_HEADER, LIMIT_MIN, SPARE, Outgoing
from crossline.io.kafka.transactions.open_transactions import blocked, group_beside, held_open, raise_if_failed
from crossline.logs import get_logger

_NONE = (-1, "")  # no batch yet
_LOOK_S = 0.2
_ASK_S = 5.0
_OVER_S = 5.0  # the broker writes the end marker within a moment
_MARKED_S = 5.0  # a reachable broker answers in milliseconds
_TRIES = 3  # of a transaction that the client aborts with its sequence numbers

log = get_logger(__name__)

Batch = tuple[int, int]  # its number, and when it was planned
Messages = Callable[[], Iterable[Outgoing]]
Many = Sequence[DecisionMessages]


class TransactionalProducer:
    """Sends the batches of one sink, each in a transaction; ``name``, the transactional id, names sink and checkpoint.

    A message larger than the limit of the client or the topic is truncated. A topic that rejects its messages holds its
    batch; the other topics get theirs. ``timeout_ms``: how long a batch may take before it is retried.
    """

    def __init__(self, client: Mapping[str, Any], name: str, timeout_ms: int) -> None:
        self._name = name
        self._settings: dict[str, Any] = {
            "linger.ms": 20,  # a flush waits for none of it
            "compression.type": "lz4",
            "message.timeout.ms": timeout_ms,
            "transaction.timeout.ms": max(60_000, timeout_ms + 10_000),
            **client,
            "log_level": 0,  # failures are raised as errors
            "transactional.id": name,
            "enable.idempotence": True,
            "acks": "all",
            "delivery.report.only.error": True,
        }
        self._client = dict(client)
        self._timeout_ms = timeout_ms
        self.stop = threading.Event()
        self._client_errors = ClientErrors()
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._marks: dict[str, tuple[int, str]] = {}
        self._narrow: set[str] = set()  # topics that take less than the client puts into one request

    def deliver(self, batch: Batch, topics: Sequence[str], few: Messages, decisions: Many = ()) -> None:
        """Have the topics have what ``few`` gives, each time anew, and ``decisions``, but for those with the batch.

        Raises once all was sent that could be: SinkError where trying again may help. A caller that retries does not
        say what was committed: that is known, by whichever process.
        """
        failures: dict[str, CrosslineError] = {}
        try:
            self._begin()
            self._look(topics)
            due = [topic for topic in topics if self._due(topic, batch)]
            if due and not self._committed(batch, due, few, decisions):
                for topic in due:
                    self._send_to_one_topic(batch, topic, lambda: chain(few(), *decisions), failures)
        except KafkaException as error:
            self.drop()
            raise transaction_error(error.args[0], self._name) from error
        except BaseException:
            self.drop()
            raise
        raise_any(failures)

    def drop(self) -> None:
        """Close the client. The next producer with this transactional id aborts what was not committed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                if not self._client_errors.disconnected:  # see _raise_if_alone
                    producer.abort_transaction(_LOOK_S)
        if self._group is not None:
            self._group.close()
            self._group = None
        self._marks.clear()
        self._client_errors.forget()

    def _begin(self) -> None:
        """Initialise transactions, which fences other producers of this name, by a new client if needed."""
        if self._producer is not None:
            self._producer.poll(0)  # serves error callbacks since the last batch
            if self._client_errors.disconnected:
                self.drop()
        if self._producer is None:
            producer = client_of(Producer, self._settings, self._client_errors)
            self._group = client_of(
                Consumer, {**self._client, "log_level": 0, "group.id": self._name, "enable.auto.commit": False}
            )
            self._producer = producer
            self._until_done(producer.init_transactions)

    def _look(self, topics: Sequence[str]) -> None:
        """Read the last committed batch of each topic."""
        unknown = [TopicPartition(topic, 0) for topic in topics if topic not in self._marks]
        if unknown and self._group is not None:
            group = self._group
            try:
                found = self._until_done(lambda wait_s: group.committed(unknown, wait_s), _OVER_S)
            except KafkaException as error:
                if not held_open(self._client, self._name, unknown):
                    raise
                self._end_open(topics)
                try:
                    found = group.committed(unknown, _ASK_S)
                except KafkaException:
                    raise open_transaction_error(self._name) from error
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
                self._marks[each.topic] = (each.offset, each.metadata or "") if each.offset >= 0 else _NONE

    def _end_open(self, topics: Sequence[str]) -> None:
        """Commit what the brokers hold open of this name, and is over: it was committed, and they lost the end of it.

        By a transaction that gives nothing: numbers of a group of none, and, where records are held open, one
        without a value.
        """
        beside = group_beside(self._client, self._name)
        if self._producer is None or beside is None:
            raise open_transaction_error(self._name)
        producer, refused = self._producer, Refused()
        places = blocked(self._client, self._name, topics)
        producer.begin_transaction()
        for each in places:
            producer.produce(each.topic, partition=each.partition, headers=[(END_HEADER, self._name.encode())])
        self._flush(producer, refused)
        if refused:
            raise KafkaException(refused[0][1])
        group = client_of(Consumer, {**self._client, "log_level": 0, "group.id": beside})
        numbers, who = [TopicPartition(topics[0], 0, 0)], group.consumer_group_metadata()
        try:
            self._until_done(
                lambda wait_s: self._mark(partial(producer.send_offsets_to_transaction, numbers, who, wait_s))
            )
            self._until_done(producer.commit_transaction)
        finally:
            group.close()
        partitions = [f"{each.topic}-{each.partition}" for each in places]
        log.warning("a broker held open what it had committed; it was ended", name=self._name, partitions=partitions)

    def _due(self, topic: str, batch: Batch) -> bool:
        """Whether the topic does not have the batch yet."""
        number, planned = self._marks[topic]
        if number < batch[0]:
            return True
        if (number, planned) == (batch[0], str(batch[1])):
            return False
        raise other_batch_error(topic, number, batch[0], self._name)

    def _until_done(self, call: Callable[[float], Any], seconds: float = math.inf) -> Any:
        """What ``call`` gives, which is given a moment at a time and goes on where it was, for ``seconds`` at most."""
        deadline = KafkaDeadline(min(self._timeout_ms / 1000, seconds), self.stop)
        while True:
            try:
                return call(_LOOK_S)
            except KafkaException as error:
                again = error.args[0].retriable() or passes(error.args[0])
                if not again or deadline.expired:
                    raise
                if self._producer is not None:
                    self._producer.poll(0)
                if self._client_errors.reason is not None:
                    raise SinkError(
                        f"Kafka takes nothing under the name {self._name}{self._client_errors.reason_suffix()}"
                    ) from error

    def _send_to_one_topic(
        self, batch: Batch, topic: str, messages: Messages, failures: dict[str, CrosslineError]
    ) -> None:
        """What goes to one topic, cut as far as it must be."""
        limits: dict[str, int] = {}  # by name of a message, bytes
        client_max = int(self._settings.get("message.max.bytes", 1_000_000)) - SPARE

        def mine() -> Iterable[Outgoing]:
            return (message for message in messages() if message.topic == topic)

        while refused := self._transaction(batch, [topic], mine, limits):
            large = [message for message, error in refused if error.code() in TOO_LARGE]
            if not large:
                failures[topic] = sink_error_of(refused[0][1], topic)
                return
            if any(message.size > client_max for message in large):
                limits |= {each.name: client_max for each in mine() if each.size > client_max}
                continue
            if topic not in self._narrow:
                self._narrow.add(topic)  # a request is refused as a whole; alone, each message is answered for itself
                continue
            smallest = min(large, key=lambda message: message.size)
            # Some stay larger than they are cut to: what counts is how far they were.
            tried = min(smallest.size, limits.get(smallest.name, smallest.size))
            if tried <= LIMIT_MIN:
                text = f"topic {topic} takes no message of {smallest.size} bytes; raise max.message.bytes of the topic"
                failures[topic] = SinkError(text)
                return
            limit, size = max(LIMIT_MIN, tried // 2), smallest.size
            limits |= {each.name: min(limit, limits.get(each.name, limit)) for each in mine() if each.size >= size}
        for whole in mine() if limits else ():
            if whole.name in limits:
                log_cut_message(whole, whole.cut(limits[whole.name]))

    def _committed(self, batch: Batch, topics: Sequence[str], few: Messages, decisions: Many) -> bool:
        """Send it all in one transaction; False: something was refused, and nothing stands.

        At first without a report for each message, which costs as much as the message, and waits for the interpreter
        each time: a transaction in which a message failed cannot be committed. What failed, and why, a second one says.
        """
        deadline = KafkaDeadline(self._timeout_ms / 1000, self.stop)
        if self._narrow.isdisjoint(topics):
            producer, group = self._clients()
            try:
                return not self._tried(producer, group, batch, topics, few, {}, decisions)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._until_done(producer.abort_transaction)
                if deadline.expired:
                    return False
        return not self._transaction(batch, topics, lambda: chain(few(), *decisions), {})

    def _clients(self) -> tuple[Producer, Consumer]:
        if self._producer is None or self._group is None:
            raise SinkError(f"{self._name} is closed")
        return self._producer, self._group

    def _transaction(
        self, batch: Batch, topics: Sequence[str], messages: Messages, limits: Mapping[str, int]
    ) -> Refused:
        """All of it and the number of the batch, or nothing, and then what was refused."""
        producer, group = self._clients()
        for left in reversed(range(_TRIES)):
            try:
                return self._tried(producer, group, batch, topics, messages, limits)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort() or not left:
                    raise
                self._until_done(producer.abort_transaction)
        return []

    def _tried(
        self,
        producer: Producer,
        group: Consumer,
        batch: Batch,
        topics: Sequence[str],
        messages: Messages,
        limits: Mapping[str, int],
        decisions: Many | None = None,
    ) -> Refused:
        """One attempt; with ``decisions``, which come behind the messages: without reports."""
        refused, reported = Refused(), decisions is None
        wanted = set(topics)
        producer.begin_transaction()
        for nth, message in enumerate(messages()):
            if message.topic in wanted:
                limit = limits.get(message.name) if limits else None
                whole = message if limit is None else message.cut(limit)
                self._produce(producer, whole, refused, reported=reported)
                if message.topic in self._narrow:
                    self._flush(producer, refused)
            if (nth + 1) % POLL_EACH == 0:
                producer.poll(0)
            if refused:
                break
        for each in decisions or ():
            if each.topic in wanted and not refused:
                self._produce_all(producer, each, refused)
        self._flush(producer, refused, reported=reported)
        blamed = [each for each in refused if each[1].code() not in OF_ANOTHER]
        if blamed:
            self._until_done(producer.abort_transaction)
            return blamed
        planned = str(batch[1])
        marks = [TopicPartition(topic, 0, batch[0], metadata=planned) for topic in topics]
        known = group.consumer_group_metadata()
        self._until_done(lambda wait_s: self._mark(partial(producer.send_offsets_to_transaction, marks, known, wait_s)))
        self._until_done(producer.commit_transaction)
        self._marks |= dict.fromkeys(topics, (batch[0], planned))
        return []

    def _mark(self, call: Callable[[], None]) -> None:
        """``call`` puts the numbers of the batch into the transaction; a client that does not come back is given up."""
        try:
            call_with_timeout(call, _MARKED_S, self.stop)
        except AbandonedError:
            self._producer = None  # the pending call owns it now: no other call can use it
            text = f"the Kafka client has not come back in {_MARKED_S:.0f} s from a request under the name"
            raise SinkError(f"{text} {self._name}; another one takes its place") from None

    def _produce(self, producer: Producer, message: Outgoing, refused: Refused, *, reported: bool) -> None:
        def answered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append((message, error))

        deadline: KafkaDeadline | None = None
        report = answered if reported else None
        headers = [(name, text.encode()) for name, text in message.headers.items()]
        while not refused:
            try:
                producer.produce(
                    message.topic, key=message.key, value=message.value, headers=headers, on_delivery=report
                )
            except BufferError:
                deadline = deadline or KafkaDeadline(self._timeout_ms / 1000, self.stop)
                producer.poll(0.1)  # the client's queue is full: let it drain
                self._raise_if_disconnected()
                if deadline.expired:
                    text = f"Kafka has acknowledged nothing of {self._name} in {self._timeout_ms} ms"
                    raise SinkError(text + self._client_errors.reason_suffix()) from None
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                refused.append((message, error.args[0]))
            else:
                return

    def _produce_all(self, producer: Producer, given: DecisionMessages, refused: Refused) -> None:
        """Produce without reports. There are thousands: each that goes smoothly takes one call, and no object."""
        produce, topic = producer.produce, given.topic
        for nth, (key, value, name) in enumerate(zip(given.keys, given.values, given.names, strict=True)):
            if nth % POLL_EACH == 0:
                producer.poll(0)
            try:
                produce(topic, value, key, headers={NAME: name})
            except (BufferError, KafkaException):
                self._produce(producer, given.message(nth), refused, reported=False)
            if refused:
                return

    def _flush(self, producer: Producer, refused: Refused, *, reported: bool = True) -> None:
        """Wait for the answers. Once one is a refusal, others may not come: the client sends nothing more then."""
        deadline = KafkaDeadline(self._timeout_ms / 1000 + 1, self.stop)
        while (left := producer.flush(_LOOK_S)) and not refused:
            if not reported:
                raise_if_failed(producer)
            self._raise_if_disconnected()
            if deadline.expired:
                text = f"Kafka has not acknowledged {left} messages of {self._name} in {self._timeout_ms} ms"
                raise SinkError(text + self._client_errors.reason_suffix())
        self._raise_if_disconnected()

    def _raise_if_disconnected(self) -> None:
        """Raise while all brokers are away, before one is back and is sent the rest.

        A broker that was alone and was killed may have left the last transaction without its end, see ``held_open``.
        What comes behind it under the same name ends it, too, and as if it had never been where it is ended so itself.
        And a client that goes on may wait for good, see ``call_with_timeout``. Another one asks first.
        """
        if self._client_errors.disconnected:
            raise SinkError(f"no broker was there for what goes under {self._name}; another client takes its place")
