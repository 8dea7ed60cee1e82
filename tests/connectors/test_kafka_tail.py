"""Ranges of topics, read one after the other from a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer, TopicPartition

from crossline.connectors.kafka.tail import KafkaTail, Place, Range
from crossline.services.broker import LocalBroker

pytestmark = pytest.mark.kafka


@pytest.fixture
def tail(kafka_broker: LocalBroker) -> Iterator[KafkaTail]:
    made = KafkaTail({"bootstrap.servers": kafka_broker.brokers})
    yield made
    made.close()


def send(broker: LocalBroker, topic: str, partition: int, values: range, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.brokers, "acks": "all", **settings})
    if "transactional.id" in settings:
        producer.init_transactions()
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, b"%d" % value, partition=partition)
    if "transactional.id" in settings:
        producer.commit_transaction()
    assert producer.flush(60) == 0


Found = dict[Place, list[tuple[int, bytes]]]


def read(tail: KafkaTail, ranges: dict[Place, Range], wait_s: float = 30) -> Found | None:
    found = tail.read(ranges, time.monotonic() + wait_s)
    if found is None:
        return None
    return {place: [(int(m.offset() or 0), bytes(m.value() or b"")) for m in mine] for place, mine in found.items()}


def numbered(values: range) -> list[tuple[int, bytes]]:
    return [(value, b"%d" % value) for value in values]


def test_range_after_range(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaTail) -> None:
    topic = kafka_topic(2)
    for partition, count in ((0, 3_000), (1, 10)):
        send(kafka_broker, topic, partition, range(count))
    for begin, end, other in ((0, 5, 0), (5, 5, 3), (5, 2_500, 3), (2_500, 3_000, 10)):
        ranges = {(topic, 0): (begin, end), (topic, 1): (min(other, 3) if other == 10 else 0, other)}
        found = read(tail, ranges)
        assert found == {place: numbered(range(*each)) for place, each in ranges.items()}


def test_what_comes_later_is_waited_for_and_what_was_read_before_is_read_again(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaTail
) -> None:
    place = (kafka_topic(1), 0)
    send(kafka_broker, *place, range(4))
    assert read(tail, {place: (0, 4)}) == {place: numbered(range(4))}
    assert read(tail, {place: (4, 6)}, wait_s=0.5) is None  # it is not there
    send(kafka_broker, *place, range(4, 6))
    assert read(tail, {place: (4, 6)}) == {place: numbered(range(4, 6))}
    assert read(tail, {place: (1, 3)}) == {place: numbered(range(1, 3))}  # a batch is run again
    tail.rest()
    assert read(tail, {place: (3, 6)}) == {place: numbered(range(3, 6))}


def test_offsets_that_hold_no_record_end_a_range_too(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaTail
) -> None:
    """The mark at the end of a transaction takes an offset: here 3, and 7 at the topic's end."""
    place = (kafka_topic(1), 0)
    for values in (range(3), range(4, 7)):
        send(kafka_broker, *place, values, **{"transactional.id": f"{place[0]}-sender"})
    assert read(tail, {place: (0, 4)}) == {place: numbered(range(3))}
    assert read(tail, {place: (4, 8)}) == {place: numbered(range(4, 7))}


def test_records_that_are_gone_are_not_passed_over(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaTail
) -> None:
    place = (kafka_topic(1), 0)
    send(kafka_broker, *place, range(10))
    admin = kafka_broker.admin()  # the request ends with the client
    for future in admin.delete_records([TopicPartition(*place, 5)]).values():
        future.result(30)
    assert read(tail, {place: (2, 10)}) is None
    assert read(tail, {place: (5, 10)}) == {place: numbered(range(5, 10))}
    assert read(tail, {("nobody-made-this", 0): (0, 1)}, wait_s=2) is None
