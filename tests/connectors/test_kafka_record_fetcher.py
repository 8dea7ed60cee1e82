"""Reads single records of a real broker again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from dev.services.broker import LocalBroker

from crossline.io.kafka import record_fetcher as kafka_fetch
from crossline.io.kafka.backward_reader import BackwardTopicReader
from crossline.io.kafka.client import reading_settings
from crossline.io.kafka.record_fetcher import KafkaRecordFetcher
from crossline.settings.kafka import KafkaSourceSettings

from .remaking import WAIT_S, producer_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> str:
    """Two partitions with three records each, the last of them without a value."""
    name = kafka_topic(2)
    producer = producer_of(kafka_broker)
    for value in (b"0", b"1", None):
        for partition in range(2):
            producer.produce(name, None if value is None else b"%d/%s" % (partition, value), partition=partition)
    assert producer.flush(WAIT_S) == 0
    return name


def test_any_records_of_a_partition_in_one_go(kafka_broker: LocalBroker, topic: str) -> None:
    fetch = KafkaRecordFetcher({"bootstrap.servers": kafka_broker.brokers})
    asked = [(1, [1]), (0, [0, 1, 2]), (1, [0]), (0, [1]), (1, [0, 1])]
    found = [fetch(f"{topic}-{partition}", offsets, soon_s()) for partition, offsets in asked]
    assert found == [{1: b"1/1"}, {0: b"0/0", 1: b"0/1"}, {0: b"1/0"}, {1: b"0/1"}, {0: b"1/0", 1: b"1/1"}]


def test_records_that_lie_far_apart(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = kafka_topic(1)
    producer = producer_of(kafka_broker)
    for number in range(3_000):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(WAIT_S) == 0
    wanted = [*range(0, 20, 3), 1_500, 1_501, 2_999]
    fetch = KafkaRecordFetcher({"bootstrap.servers": kafka_broker.brokers})
    for near in (kafka_fetch.NEAR, 0, 10_000):
        monkeypatch.setattr(kafka_fetch, "NEAR", near)
        assert fetch(f"{name}-0", wanted, soon_s()) == {offset: b"%d" % offset for offset in wanted}


def test_what_is_not_there_stays_away(kafka_broker: LocalBroker, topic: str) -> None:
    fetch = KafkaRecordFetcher({"bootstrap.servers": kafka_broker.brokers, "log_level": "0"})
    assert fetch(f"{topic}-0", [1, 3], time.monotonic() + 0.5) in ({1: b"0/1"}, {}), "until time is up"
    assert fetch("nobody-made-this-0", [0], time.monotonic() + 0.5) == {}
    assert fetch(f"{topic}-0", [1], time.monotonic()) == {}
    assert fetch(f"{topic}-0", [1], soon_s()) == {1: b"0/1"}


def test_what_was_given_up_is_found_where_the_source_reads_it(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    """Offset 1 is the mark at the end of the first transaction; the second one was never ended."""
    topic = kafka_topic()
    for value, ends in ((b"given up", True), (b"under way", False)):
        producer = producer_of(kafka_broker, **{"transactional.id": f"{topic}-{ends}"})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(WAIT_S) == 0
        if ends:
            producer.abort_transaction(WAIT_S)
    place: dict[str, Any] = {"kind": "kafka", "brokers": kafka_broker.brokers, "topic": topic}
    asked = reading_settings(KafkaSourceSettings(**place), {})
    found = {0: b"given up", 2: b"under way"}
    assert KafkaRecordFetcher(asked)(f"{topic}-0", [0, 2], soon_s()) == found
    back = BackwardTopicReader(asked, [topic], None, 2**42, soon_s())
    assert [each[1:] for each in back.values() if each is not None] == sorted(found.items(), reverse=True)
    committed = {"isolation.level": "read_committed"}
    assert reading_settings(KafkaSourceSettings(**place, options=committed), {}).items() >= committed.items()


def soon_s() -> float:
    return time.monotonic() + WAIT_S
