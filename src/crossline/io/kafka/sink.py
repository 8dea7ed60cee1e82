"""The Kafka sink: alerts to topics, keyed by their entity."""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from confluent_kafka import KafkaException

from crossline.basics.errors import CrosslineError, SinkError
from crossline.basics.times import format_instant
from crossline.io.kafka.client import librdkafka_settings
from crossline.io.kafka.decision_messages import DecisionMessages, decision_messages
from crossline.io.kafka.errors import TOO_LARGE, of_one_topic, raise_any, sink_error_of
from crossline.io.kafka.idempotent_producer import (
    IdempotentProducer,
    KafkaDeadline,
    Refused,
    log_cut_message,
    names_at_end,
)
from crossline.io.kafka.messages import (
    LIMIT_MIN,
    SPARE,
    Outgoing,
    alert_message,
    dead_message,
    late_message,
)
from crossline.io.kafka.transactions.transactional_producer import TransactionalProducer
from crossline.io.sinks.base import Delivery, for_delivery, wall_clock_ms
from crossline.io.sinks.decisions import columns_of
from crossline.logs import get_logger
from crossline.settings import kafka as config_kafka

_HEADER_MAX = 500  # characters of what is no topic's name
_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")

log = get_logger(__name__)


class KafkaSink:
    """Produces each alert to its rule's ``sink_topic``, else to ``topic``, and dead letters to a topic of their own.

    An alert's key is the entity it is about, its value JSON; the header ``alert_id`` names it. A dead letter's value is
    the record's bytes; headers say why and from where, ``dead_letter_id`` names it.

    Guarantee: exactly once, to those who read committed records. A batch goes to a topic in one transaction, which has
    the number of the batch, so a repeated batch adds nothing, from any process (see ``TransactionalProducer``).
    With a new checkpoint, whose numbers begin anew, the last ``dedupe_tail`` records of each partition are read back
    first (0: none), and what stands there is not sent again; nor are the last ``dedupe_tail`` messages that this
    process sent.

    Without ``transactions``, or for deliveries of no checkpoint, this reading back is all there is, after a start and
    after a failure: at least once, the same id each time, and exactly once as long as the interrupted batch and what
    others wrote after it fit in that, and the broker was done with what a killed process had under way. The producer is
    idempotent with acks=all, so its own retries add nothing.

    Shadow alerts are never sent. A decision goes to the topic that it names, under its id; without one it is not sent.

    A message that is larger than the client or the topic takes is sent cut, and reports it (see ``kafka_messages``). A
    topic that is not there, or may not be written, holds the batch, and keeps nothing from the other topics. A
    ``sink_topic`` that can be no topic's name goes to ``topic``, with the name in the header ``sink_topic``.

    ``timeout_ms``: how long a batch may take before it is tried again.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        options: Mapping[str, Any] | None = None,
        *,
        dead_letter_topic: str | None = None,
        late_topic: str | None = None,
        corrections_topic: str | None = None,
        transactions: bool = True,
        pipeline: str = "",
        dedupe_tail: int = 10_000,
        timeout_ms: int = 30_000,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._client = {"bootstrap.servers": brokers, "log_level": 3, **(options or {})}
        self._topic = topic
        self._dead_letter_topic = dead_letter_topic
        self._late_topic = late_topic
        self._corrections_topic = corrections_topic
        self._transactions = transactions
        self._pipeline = pipeline
        self._transactional_producer: TransactionalProducer | None = None
        self._checkpoint = ""  # whose batches ``_transactional_producer`` counts
        self._dedupe_tail = dedupe_tail
        self._timeout_ms = timeout_ms
        self._clock_ms = clock_ms
        self._idempotent_producer = IdempotentProducer(
            self._client, timeout_ms, lambda message: self._mark_delivered(*message.place)
        )
        self._tails: dict[str, set[str]] = {}  # names in a topic when it was read back
        self._sent: defaultdict[str, _LastNames] = defaultdict(lambda: _LastNames(dedupe_tail))  # since then
        self._batch_id: int | None = None
        self._acknowledged: defaultdict[str, set[str]] = defaultdict(set)  # by topic, names of the batch
        self._narrow: set[str] = set()  # topics that take less than the client puts into one batch

    @classmethod
    def from_settings(cls, settings: config_kafka.KafkaSinkSettings, pipeline: str) -> Self:
        """The producer that ``settings`` describe; raises PermanentError where its password is not to be had."""
        options = {**settings.options, **librdkafka_settings(settings.brokers, settings.security, os.environ)}
        return cls(
            settings.brokers,
            settings.topic,
            options,
            dead_letter_topic=settings.dead_letter_topic,
            late_topic=settings.late_topic,
            corrections_topic=settings.corrections_topic,
            transactions=settings.transactions,
            pipeline=pipeline,
        )

    def open(self) -> None:
        """Start the client; raises UsageError where it refuses its settings.

        A broker that is away shows at the first delivery.
        """
        self._idempotent_producer.open()

    def use_cancel_token(self, stop: threading.Event) -> None:
        """Wait for brokers no longer than a second once ``stop`` is set."""
        self._idempotent_producer.stop = stop
        if self._transactional_producer is not None:
            self._transactional_producer.stop = stop

    def deliver(self, delivery: Delivery) -> None:
        """Send the missing messages and wait for their acknowledgement.

        Raises once all has been sent that could be: SinkError where trying again may help.
        """
        if delivery.batch_id != self._batch_id:
            self._batch_id = delivery.batch_id
            self._acknowledged.clear()
        try:
            if self._transactions and delivery.checkpoint:
                self._send_once(delivery)
            else:
                self._send(delivery)
        except CrosslineError:
            # What was written is unknown: drop the queue, and read the topics back.
            self._forget()
            raise

    def close(self) -> None:
        """Close the client; delivered messages are already acknowledged."""
        self._forget()

    def _forget(self) -> None:
        self._idempotent_producer.drop()
        if self._transactional_producer is not None:
            self._transactional_producer.drop()
        self._tails.clear()
        self._sent.clear()

    def _mark_delivered(self, topic: str, name: str) -> None:
        self._acknowledged[topic].add(name)
        self._sent[topic].add([name])

    def _send_once(self, delivery: Delivery) -> None:
        """Send the missing messages in a transaction, with the number of the batch."""
        failures: dict[str, CrosslineError] = {}
        fresh = self._fresh(self._messages(delivery), failures)
        decisions = self._fresh_decisions(decision_messages(columns_of(delivery.decisions)), failures)
        if fresh or decisions:
            producer = self._producer_of(delivery.checkpoint)
            batch = (delivery.batch_id, delivery.began_ms)
            names: defaultdict[str, list[str]] = defaultdict(list)
            for topic, name in fresh:
                names[topic].append(name)
            for each in decisions:
                names[each.topic] += each.names
            producer.deliver(batch, list(names), fresh.values, decisions)
            for topic, mine in names.items():
                self._acknowledged[topic].update(mine)
                self._sent[topic].add(mine)
        raise_any(failures)

    def _producer_of(self, checkpoint: str) -> TransactionalProducer:
        """The producer for the batches of ``checkpoint``; its transactional id is unique to it."""
        if self._transactional_producer is None or self._checkpoint != checkpoint:
            if self._transactional_producer is not None:
                self._transactional_producer.drop()
            name = f"crossline-{self._pipeline}-{checkpoint}-{self._topic}"
            self._transactional_producer, self._checkpoint = (
                TransactionalProducer(self._client, name, self._timeout_ms),
                checkpoint,
            )
            self._transactional_producer.stop = self._idempotent_producer.stop
        return self._transactional_producer

    def _send(self, delivery: Delivery) -> None:
        failures: dict[str, CrosslineError] = {}
        decisions = chain.from_iterable(decision_messages(columns_of(delivery.decisions)))
        fresh = self._fresh(chain(self._messages(delivery), decisions), failures).values()
        refused = self._idempotent_producer.send(m for m in fresh if m.topic not in self._narrow)
        refused += self._idempotent_producer.send((m for m in fresh if m.topic in self._narrow), unbatched=True)
        large = _too_large(refused, failures)
        if large:
            self._send_large(large, failures)
        raise_any(failures)

    def _fresh(
        self, messages: Iterable[Outgoing], failures: dict[str, CrosslineError]
    ) -> dict[tuple[str, str], Outgoing]:
        """The messages that their topic lacks, by place, each once; none for a topic that cannot be read."""
        fresh: dict[tuple[str, str], Outgoing] = {}
        for message in messages:
            topic, name = place = message.place
            known = any(name in names for names in self._known(topic, failures))
            if not known and place not in fresh and topic not in failures:
                fresh[place] = message
        return fresh

    def _fresh_decisions(
        self, messages: Iterable[DecisionMessages], failures: dict[str, CrosslineError]
    ) -> list[DecisionMessages]:
        """The decisions that their topic lacks, as ``_fresh`` has other messages."""
        fresh = [each.without(self._known(each.topic, failures)) for each in messages]
        return [each for each in fresh if len(each) and each.topic not in failures]

    def _known(self, topic: str, failures: dict[str, CrosslineError]) -> tuple[Collection[str], ...]:
        """Names that the topic has, as far as they are known; where it cannot be read, that is a failure."""
        if topic not in self._tails and topic not in failures:
            try:
                self._tails[topic] = self._names_at_end(topic)
            except KafkaException as error:
                failures[topic] = sink_error_of(error.args[0], topic)
                if not of_one_topic(error.args[0]):
                    raise failures[topic] from None
        return self._acknowledged[topic], self._tails.get(topic, ()), self._sent[topic].names

    def _names_at_end(self, topic: str) -> set[str]:
        if self._dedupe_tail == 0:
            return set()
        return names_at_end(
            self._client,
            topic,
            self._dedupe_tail,
            KafkaDeadline(self._timeout_ms / 1000, self._idempotent_producer.stop),
        )

    def _send_large(self, messages: list[Outgoing], failures: dict[str, CrosslineError]) -> None:
        """Send each unbatched, since a batch is rejected as a whole; halve a message until its topic accepts it."""
        client_max = self._idempotent_producer.bytes_max - SPARE
        unbatched = [m for m in messages if m.size <= client_max and m.topic not in self._narrow]
        refused = {m.place for m in _too_large(self._idempotent_producer.send(unbatched, unbatched=True), failures)}
        done = {m.place for m in unbatched} - refused
        self._narrow.update(topic for topic, _ in done)
        wholes = {m.place: m for m in messages if m.place not in done}
        limits = {place: client_max if m.size > client_max else m.size // 2 for place, m in wholes.items()}
        while limits:
            cut = {place: wholes[place].cut(limit) for place, limit in limits.items()}
            refused = {
                m.place for m in _too_large(self._idempotent_producer.send(cut.values(), unbatched=True), failures)
            }
            for place, message in cut.items():
                if place in refused and limits[place] > LIMIT_MIN:
                    limits[place] = max(LIMIT_MIN, limits[place] // 2)
                    continue
                _report_cut(wholes[place], message, failures, delivered=place[1] in self._acknowledged[place[0]])
                del limits[place]

    def _messages(self, delivery: Delivery) -> Iterator[Outgoing]:
        now = format_instant(self._clock_ms())
        for alert in for_delivery(delivery):
            wanted = alert.get("sink_topic") or self._topic
            if alert["kind"] == "correction" and self._corrections_topic is not None:
                wanted = self._corrections_topic
            fits = _TOPIC_NAME.fullmatch(wanted) is not None
            headers = {} if fits else {"sink_topic": str(wanted)[:_HEADER_MAX]}
            yield alert_message(wanted if fits else self._topic, {**alert, "delivered_at": now}, headers)
        if self._dead_letter_topic is not None:
            for letter in delivery.dead:
                yield dead_message(self._dead_letter_topic, letter)
        if self._late_topic is not None:
            for late in delivery.late:
                yield late_message(self._late_topic, late)


class _LastNames:
    """The last ``count`` names that were added, each of which is new."""

    def __init__(self, count: int) -> None:
        self.names: set[str] = set()
        self._in_order: deque[str] = deque()
        self._count = count

    def add(self, names: Sequence[str]) -> None:
        """Forget the oldest for them."""
        self.names.update(names)
        self._in_order.extend(names)
        while len(self._in_order) > self._count:
            self.names.discard(self._in_order.popleft())


def _too_large(refused: Refused, failures: dict[str, CrosslineError]) -> list[Outgoing]:
    """The messages that were rejected for their size; other errors go to ``failures``, by topic."""
    large = []
    for message, error in refused:
        if error.code() in TOO_LARGE:
            large.append(message)
        else:
            failures.setdefault(message.topic, sink_error_of(error, message.topic))
    return large


def _report_cut(whole: Outgoing, cut: Outgoing, failures: dict[str, CrosslineError], *, delivered: bool) -> None:
    if delivered:
        log_cut_message(whole, cut)
    elif whole.topic not in failures:
        text = f"topic {whole.topic} takes no message of {cut.size} bytes; raise max.message.bytes of the topic"
        failures[whole.topic] = SinkError(text)
