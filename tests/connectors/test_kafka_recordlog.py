"""The record log of the decision API over a real topic."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from dev.services.broker import LocalBroker

from crossline.basics.errors import PermanentError, RetryableError, SourceError, UsageError
from crossline.basics.streams.api_record import LogPosition, SubmittedRecord
from crossline.io.recordlog.topic import KafkaRecordLog
from crossline.io.recordlog.topic_search import read_tail
from crossline.settings.kafka import KafkaSourceSettings

from .remaking import WAIT_S

T = TypeVar("T")
NOW_MS = 1_767_225_600_000


def asked(number: int, account: Any = "a1", record_id: str | None = None, **more: Any) -> SubmittedRecord:
    record_id = record_id or f"t{number}"
    raw = orjson.dumps({"id": record_id, "payer": {"account": account}, **more})
    return SubmittedRecord(number, "payments", record_id, raw, "", NOW_MS + number)


def source(brokers: str, topic: str, **more: Any) -> KafkaSourceSettings:
    return KafkaSourceSettings(kind="kafka", brokers=brokers, topic=topic, **more)


def log_of(brokers: str, topic: str, **more: Any) -> KafkaRecordLog:
    return KafkaRecordLog(source(brokers, topic), topic, "payer.account", {}, **more)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, WAIT_S))


def read(broker: LocalBroker, topic: str, partitions: int) -> dict[LogPosition, tuple[bytes | None, bytes, int]]:
    """Key, value and time of each message."""
    consumer = Consumer({"bootstrap.servers": broker.brokers, "group.id": "test", "enable.auto.commit": False})
    found: dict[LogPosition, tuple[bytes | None, bytes, int]] = {}
    try:
        count = 0
        for number in range(partitions):
            count += consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=WAIT_S)[1]
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(found) < count:
            for each in consumer.consume(1_000, timeout=0.2):
                assert each.error() is None
                place = LogPosition(f"{topic}-{each.partition()}", each.offset() or 0)
                found[place] = (each.key(), each.value() or b"", each.timestamp()[1])
    finally:
        consumer.close()
    return found


@pytest.mark.kafka
def test_records_stand_where_it_says_keyed_and_once_by_id(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    topic = kafka_topic(3, append_time=False)
    given = [asked(number, f"a{number % 7}") for number in range(200)] + [asked(200, None), asked(201, 17)]

    async def put() -> list[LogPosition]:
        log = log_of(kafka_broker.brokers, topic)
        halves = await asyncio.gather(log.append(given[:100]), log.append(given[100:]))
        again = await asyncio.gather(*(log.append([each]) for each in given[::50]))
        assert [place for (place,) in again] == [*halves[0], *halves[1]][::50]
        await log.close()
        await log.close()
        with pytest.raises(UsageError, match="closed"):
            await log.append(given[:1])
        return [*halves[0], *halves[1]]

    places = run(put())
    found = read(kafka_broker, topic, 3)
    assert len(found) == len(given)
    for place, each in zip(places, given, strict=True):
        account = orjson.loads(each.raw)["payer"]["account"]
        key = None if account is None else str(account).encode()
        assert found[place] == (key, each.raw, each.ingest_ms)
    by_key = defaultdict(list)
    for place, each in zip(places[:200], given, strict=False):
        by_key[orjson.loads(each.raw)["payer"]["account"]].append(place)
    for mine in by_key.values():
        assert len({place.log for place in mine}) == 1
        assert [place.at for place in mine] == sorted(place.at for place in mine)


@pytest.mark.kafka
def test_what_stands_behind_offsets_is_read_up_to_the_end(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    topic = kafka_topic(3, append_time=False)
    given = [asked(number, f"a{number % 7}") for number in range(200)]

    async def put() -> list[LogPosition]:
        log = log_of(kafka_broker.brokers, topic)
        places = await log.append(given)
        await log.close()
        return places

    places = run(put())
    stands = sorted((place.log, place.at, each.raw, each.ingest_ms) for place, each in zip(places, given, strict=True))
    settings = source(kafka_broker.brokers, topic)
    ends = {f"{topic}-0": 5, f"{topic}-1": 1_000_000}
    found = [(place.log, place.at, raw, ms) for place, raw, ms in read_tail(settings, topic, ends, {}, 1_000)]
    assert found == [each for each in stands if each[1] >= ends.get(each[0], 0)]
    assert len(read_tail(settings, topic, {}, {}, 50)) == 50
    assert read_tail(settings, topic, {f"{topic}-{n}": 1_000 for n in range(3)}, {}, 50) == []


def test_brokers_that_do_not_answer_are_reported() -> None:
    with pytest.raises(SourceError, match="topic payments cannot be read now"):
        read_tail(source("localhost:1", "payments"), "payments", {"payments-0": 1}, {}, 10, within_s=0.2)


@pytest.mark.kafka
def test_a_cancelled_call_harms_no_other(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    topic = kafka_topic(1)

    async def put() -> None:
        log = log_of(kafka_broker.brokers, topic)
        first, second = (asyncio.ensure_future(log.append([asked(1)])) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == [LogPosition(f"{topic}-0", 0)]
        with pytest.raises(asyncio.CancelledError):
            await first
        await log.close()

    run(put())
    assert len(read(kafka_broker, topic, 1)) == 1


@pytest.mark.kafka
def test_a_record_that_the_topic_never_takes_is_reported_and_the_others_stand(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    topic = kafka_topic(1, config={"max.message.bytes": "2000"})

    async def put() -> None:
        log = log_of(kafka_broker.brokers, topic)
        with pytest.raises(PermanentError, match=f"topic {topic}.*too large|{topic}.*larger"):
            await log.append([asked(1, padding="x" * 5_000)])
        assert await log.append([asked(2)]) == [LogPosition(f"{topic}-0", 0)]
        await log.close()

    run(put())


def test_brokers_that_do_not_answer_are_reported_in_time() -> None:
    async def put() -> None:
        log = log_of("127.0.0.1:1", "payments", timeout_ms=300)
        with pytest.raises(RetryableError, match="topic payments"):
            await log.append([asked(1)])
        with pytest.raises(RetryableError):  # asked again, it is sent again
            await log.append([asked(1)])
        waiting = asyncio.ensure_future(log.append([asked(2)]))
        await asyncio.sleep(0)
        waiting.cancel()
        await log.close()

    run(put())


def test_avro_and_unknown_topics_are_refused() -> None:
    avro = source("127.0.0.1:1", "payments", registry={"url": "http://127.0.0.1:2"})
    with pytest.raises(UsageError, match=r"topic payments: found records of Avro \(registry\), expected JSON"):
        KafkaRecordLog(avro, "payments", "account", {})
    with pytest.raises(UsageError, match="expected one of payments, refunds"):
        KafkaRecordLog(source("127.0.0.1:1", "payments, refunds"), "other", "account", {})


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"null"])
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    async def put() -> None:
        log = log_of("127.0.0.1:1", "payments", timeout_ms=300)
        with pytest.raises(UsageError, match="record 'x': found no JSON of a record"):
            await log.append([SubmittedRecord(0, "payments", "x", raw, "", NOW_MS)])
        await log.close()

    run(put())
