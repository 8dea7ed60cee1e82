"""The record log over a Kafka topic: acknowledged records are messages that all in-sync replicas have."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from crossline.basics.errors import SourceError, UsageError
from crossline.basics.streams.api_record import KeyedSubmission, LogPosition, SubmittedRecord
from crossline.io.kafka.client import librdkafka_settings
from crossline.io.kafka.client_factory import client_of
from crossline.io.kafka.errors import sink_error_of
from crossline.io.recordlog.keys import message_key
from crossline.logs import get_logger
from crossline.settings.kafka import KafkaSourceSettings

log = get_logger(__name__)

TIMEOUT_MS = 10_000  # after which the client gives a record up
KNOWN_MAX = 50_000  # ids of which the place is known
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
_POLL_S = 0.1
_SIZES = {"message.max.bytes": 17 << 20}  # what the API takes at most, and some; the topic has a bound of its own
_FLUSH_S = 10.0
_SETTINGS: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    # The same partition for a key as the Java clients choose.
    "partitioner": "murmur2_random",
    # Whoever asks waits for it, and for who judges meanwhile, which takes longer: a broker has fewer requests so.
    "linger.ms": 5,
}


class KafkaRecordLog:
    """Puts records into ``topic``, one a message, keyed by the field ``key``.

    What ``append`` acknowledges is with all replicas in sync (``acks=all``), and the client sends none twice
    (``enable.idempotence``). The key's text is the message's key, and chooses the partition as Java's producers do; a
    record without it goes to any. Key by the field that the topic's other producers key by, and that rules group by:
    then a key's records stand in one partition, in their order. The message's time is the record's ``ingest_ms``.

    A record whose id was put there lately (the last 50,000 by this process, or added by ``know``) is not put
    there again. After a restart, or where the brokers did not answer in time, it may stand there twice all the same;
    the pipeline takes the first, and the other one is a dead letter, ``duplicate_id``. A producer that has a fatal
    error (its place in the order was lost, say) takes nothing any more: another one takes over, and what the first had
    not sent fails, to be put there again.

    Args:
        settings: The source that the pipeline reads the topic by: brokers, security, options of the client.
        topic: The topic; one of those of the source.
        key: Field of the message's key, with dots where it is nested.
        environment: Where passwords are.
        timeout_ms: After which a record that was not acknowledged is given up.
        options: Further options of the client, by librdkafka's names; those of ``settings`` are for who reads.
        encoded: Records come as ``KeyedSubmission``, in the topic's own form.

    Raises:
        UsageError: the stream's records are of Avro, or the client refuses its settings.
    """

    def __init__(
        self,
        settings: KafkaSourceSettings,
        topic: str,
        key: str,
        environment: Mapping[str, str] = os.environ,
        *,
        timeout_ms: int = TIMEOUT_MS,
        options: Mapping[str, Any] = NO_OPTIONS,
        encoded: bool = False,
    ) -> None:
        if settings.registry is not None and not encoded:
            raise UsageError(
                f"topic {topic}: found records of Avro (registry), expected JSON: the decision API puts records into "
                "topics as JSON in this version; give the stream a topic of `format: json` for what comes through the "
                "API, or let the topic's own producers send"
            )
        named = [each.strip() for each in settings.topic.split(",")]
        if topic not in named:
            raise UsageError(f"topic {topic}: found no such topic in the source, expected one of {', '.join(named)}")
        self._topic = topic
        self._key = key
        client = librdkafka_settings(settings.brokers, settings.security, environment)
        timed = {"message.timeout.ms": timeout_ms, "socket.nagle.disable": True}
        self._settings = {**timed, **_SIZES, **client, **options, **_SETTINGS}
        self._producer: Producer = client_of(Producer, self._settings)
        self._retired: list[Producer] = []
        self._known: OrderedDict[str, asyncio.Future[LogPosition]] = OrderedDict()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def know(self, record_id: str, place: LogPosition) -> None:
        """Note a record of an earlier process: a record of this id is not put there again.

        Where one is in flight, its place counts, unless it fails. Call it from the event loop of the caller.
        """
        there = self._known.get(record_id)
        if there is not None and not there.done():
            there.add_done_callback(lambda _: self.know(record_id, place))
        elif there is None or there.cancelled() or there.exception() is not None:
            known = asyncio.get_running_loop().create_future()
            known.set_result(place)
            self._keep(record_id, known)

    def put(self, record: SubmittedRecord) -> asyncio.Future[LogPosition]:
        """Put a record there, behind those that were put before; its place, once it is acknowledged.

        Nobody waits for the acknowledgement of others: the client sends what comes meanwhile, and keeps the order. The
        future is the caller's alone. It raises as ``append`` does.
        """
        mine: asyncio.Future[LogPosition] = asyncio.get_running_loop().create_future()
        try:
            self._begin()
        except UsageError as error:
            mine.set_exception(error)
        else:
            self._placed(record).add_done_callback(lambda done: _hand_on(done, mine))
        return mine

    async def append(self, record: Sequence[SubmittedRecord]) -> list[LogPosition]:
        """Put the records there, in their order; where each stands, once all are acknowledged.

        A record whose id is there already is not put there again: its place is that of the first. Where the call is
        cancelled, its records may be there all the same.

        Raises RetryableError where brokers do not answer, or cannot take records now: which were stored is unknown, and
        the same call again is safe. PermanentError where they never will.
        """
        self._begin()
        waited = [self._placed(each) for each in record]
        # What others wait for as well is not cancelled with this call; all are waited for, and the first error raised.
        found = await asyncio.gather(*(asyncio.shield(each) for each in waited), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if isinstance(each, LogPosition)]

    async def close(self) -> None:
        """Wait for what was not acknowledged yet, ten seconds at most; safe to call twice."""
        if not self._ended.is_set():
            self._ended.set()
            await asyncio.to_thread(self._producer.flush, _FLUSH_S)
            self._producer.purge()
            if self._thread is not None:
                await asyncio.to_thread(self._thread.join)
            self._let_go()

    def _begin(self) -> None:
        if self._ended.is_set():
            raise UsageError(f"the log of topic {self._topic} is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="record-topic", daemon=True)
            self._thread.start()

    def _placed(self, record: SubmittedRecord) -> asyncio.Future[LogPosition]:
        known = self._known.get(record.record_id)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LogPosition] = loop.create_future()
        future.add_done_callback(lambda done: self._forget(record.record_id, done))
        self._keep(record.record_id, future)
        producer = self._producer

        def answered(error: KafkaError | None, message: Message) -> None:
            with suppress(RuntimeError):  # the event loop of the caller is closed
                place = LogPosition(f"{self._topic}-{message.partition()}", message.offset())
                loop.call_soon_threadsafe(self._settle, future, error, place, producer)

        try:
            value, key = record.raw, self._key_of(record)
            producer.produce(self._topic, value, key=key, timestamp=record.ingest_ms, on_delivery=answered)
        except BufferError:
            future.set_exception(
                SourceError(f"topic {self._topic}: the brokers take nothing, and the client holds as much as it may")
            )
        except KafkaException as error:
            self._replace_where_fatal(error.args[0], producer)
            future.set_exception(sink_error_of(error.args[0], self._topic))
        except (ValueError, TypeError) as error:
            future.set_exception(UsageError(f"record {record.record_id!r}: found no JSON of a record: {error}"))
        return future

    def _keep(self, record_id: str, future: asyncio.Future[LogPosition]) -> None:
        """The last one that is known; the first that was goes, where there are too many."""
        self._known[record_id] = future
        self._known.move_to_end(record_id)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _forget(self, record_id: str, done: asyncio.Future[LogPosition]) -> None:
        """Forget a failed record: whether it was stored is unknown, so a retry puts it there again."""
        if (done.cancelled() or done.exception() is not None) and self._known.get(record_id) is done:
            del self._known[record_id]

    def _key_of(self, record: SubmittedRecord) -> bytes | None:
        if isinstance(record, KeyedSubmission):
            return record.key
        document = orjson.loads(record.raw)
        if not isinstance(document, dict):
            raise TypeError(f"{type(document).__name__} instead of an object")
        return message_key(document, self._key)

    def _settle(
        self, future: asyncio.Future[LogPosition], error: KafkaError | None, place: LogPosition, producer: Producer
    ) -> None:
        if error is not None:
            self._replace_where_fatal(error, producer)
        if future.done():
            return
        if error is not None:
            future.set_exception(sink_error_of(error, self._topic))
        else:
            future.set_result(place)

    def _replace_where_fatal(self, error: KafkaError, producer: Producer) -> None:
        """After a fatal error ``producer`` takes nothing any more: from now on another one does."""
        fatal = error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001 - the client's public name
        if not fatal or producer is not self._producer or self._ended.is_set():
            return
        log.warning("a Kafka producer had a fatal error; another one takes over", topic=self._topic, error=error.str())
        self._producer = client_of(Producer, self._settings)
        self._retired.append(producer)

    def _poll(self) -> None:
        """Have the client answer."""
        while not self._ended.is_set():
            self._producer.poll(_POLL_S)
            self._let_go()

    def _let_go(self) -> None:
        """Fail the records that replaced producers still held."""
        while self._retired:
            producer = self._retired.pop()
            producer.purge()
            producer.flush(_POLL_S)


def _hand_on(done: asyncio.Future[LogPosition], mine: asyncio.Future[LogPosition]) -> None:
    """What became of ``done`` becomes of ``mine``, whose caller may be gone."""
    if mine.done():
        return
    if (error := done.exception()) is not None:
        mine.set_exception(error)
        mine.exception()  # marks the exception as retrieved
    else:
        mine.set_result(done.result())
