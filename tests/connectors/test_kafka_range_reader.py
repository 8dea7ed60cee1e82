"""Reads successive ranges of topics of a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from dev.services.broker import LocalBroker

from crossline.io.kafka import range_reader as kafka_tail
from crossline.io.kafka.range_reader import KafkaRangeReader
from crossline.io.kafka.unavailable_range import Place, Range, RangeUnavailableError

from .remaking import WAIT_S, producer_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def tail(kafka_broker: LocalBroker) -> Iterator[KafkaRangeReader]:
    made = KafkaRangeReader({"bootstrap.servers": kafka_broker.brokers})
    yield made
    made.close()


def send(broker: LocalBroker, topic: str, partition: int, values: range, **settings: str) -> None:
    producer = producer_of(broker, **settings)
    if "transactional.id" in settings:
        producer.init_transactions()
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, b"%d" % value, partition=partition)
    if "transactional.id" in settings:
        producer.commit_transaction()
    assert producer.flush(WAIT_S) == 0


Found = dict[Place, list[tuple[int, bytes]]]


def read(tail: KafkaRangeReader, ranges: dict[Place, Range], wait_s: float = WAIT_S) -> Found | None:
    found: Found = {place: [] for place in ranges}
    try:
        for place, mine in tail.read(ranges, wait_s):
            assert 0 < len(mine) <= kafka_tail.SLICE
            found[place] += [(int(m.offset() or 0), bytes(m.value() or b"")) for m in mine]
    except RangeUnavailableError:
        return None
    return found


def numbered(values: range) -> list[tuple[int, bytes]]:
    return [(value, b"%d" % value) for value in values]


def test_range_after_range(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader) -> None:
    topic = kafka_topic(2)
    for partition, count in ((0, 3_000), (1, 10)):
        send(kafka_broker, topic, partition, range(count))
    for begin, end, other in ((0, 5, 0), (5, 5, 3), (5, 2_500, 3), (2_500, 3_000, 10)):
        ranges = {(topic, 0): (begin, end), (topic, 1): (min(other, 3) if other == 10 else 0, other)}
        found = read(tail, ranges)
        assert found == {place: numbered(range(*each)) for place, each in ranges.items()}


def test_slices(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a partition in order, each record once; what is read ahead is for the next range."""
    monkeypatch.setattr(kafka_tail, "SLICE", 700)
    topic = kafka_topic(2)
    for partition, count in ((0, 9_000), (1, 2_000)):
        send(kafka_broker, topic, partition, range(count))
    for ranges in (
        {(topic, 0): (0, 5_000), (topic, 1): (0, 1)},
        {(topic, 0): (5_000, 5_000), (topic, 1): (1, 1_999)},
        {(topic, 0): (5_000, 9_000), (topic, 1): (1_999, 2_000)},
    ):
        assert read(tail, ranges) == {place: numbered(range(*each)) for place, each in ranges.items()}


def test_who_stops_in_the_midst_reads_it_again(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_tail, "SLICE", 10)
    place = (kafka_topic(1), 0)
    send(kafka_broker, *place, range(100))
    slices = tail.read({place: (0, 100)}, WAIT_S)
    next(slices)
    slices.close()
    assert read(tail, {place: (0, 100)}) == {place: numbered(range(100))}


def test_a_partition_that_goes_on_does_not_hide_one_that_stands_still(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
) -> None:
    """Else a batch would never be left to Spark, and what is read ahead would fill the memory."""
    topic = kafka_topic(2)
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            send(kafka_broker, topic, 0, range(50))

    sending = threading.Thread(target=go_on)
    sending.start()
    try:
        assert read(tail, {(topic, 0): (0, 10), (topic, 1): (0, 1)}, wait_s=2) is None
    finally:
        stop.set()
        sending.join()


def test_what_comes_later_is_waited_for_and_what_was_read_before_is_read_again(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
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
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
) -> None:
    """The mark at the end of a transaction takes an offset: here 3, and 7 at the topic's end."""
    place = (kafka_topic(1), 0)
    for values in (range(3), range(4, 7)):
        send(kafka_broker, *place, values, **{"transactional.id": f"{place[0]}-sender"})
    assert read(tail, {place: (0, 4)}) == {place: numbered(range(3))}
    assert read(tail, {place: (4, 8)}) == {place: numbered(range(4, 7))}


def test_records_that_are_gone_are_not_passed_over(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
) -> None:
    place = (kafka_topic(1), 0)
    send(kafka_broker, *place, range(10))
    admin = kafka_broker.admin()  # the request ends with the client
    for future in admin.delete_records([TopicPartition(*place, 5)]).values():
        future.result(WAIT_S)
    assert read(tail, {place: (2, 10)}) is None
    assert read(tail, {place: (5, 10)}) == {place: numbered(range(5, 10))}
    assert read(tail, {("nobody-made-this", 0): (0, 1)}, wait_s=2) is None


def test_what_is_in_memory_is_a_range(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
) -> None:
    topic = kafka_topic(2)
    starts = {(topic, 0): 0, (topic, 1): 0}
    assert tail.buffered(starts, 0.0, 100) == (0, starts)
    send(kafka_broker, topic, 1, range(3))
    count = 0
    while count < 3:
        count, ends = tail.buffered(starts, WAIT_S, 100)
    assert ends == {(topic, 0): 0, (topic, 1): 3}
    found = read(tail, {place: (starts[place], end) for place, end in ends.items()}, 0.0)
    assert found == {(topic, 0): [], (topic, 1): numbered(range(3))}
    send(kafka_broker, topic, 0, range(2))
    starts, count = dict(ends), 0
    while count < 2:
        count, ends = tail.buffered(starts, WAIT_S, 100)
    assert ends == {(topic, 0): 2, (topic, 1): 3}


def test_no_more_is_taken_in_than_is_enough(
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tail: KafkaRangeReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_tail, "AT_ONCE", 4)
    topic = kafka_topic()
    send(kafka_broker, topic, 0, range(100))
    starts, counts = {(topic, 0): 0}, [0]
    while counts[-1] < 12:
        counts.append(tail.buffered(starts, WAIT_S, 12)[0])
    assert counts == sorted(counts)
    assert counts[1] <= 5
    assert counts[-1] <= 16
    assert tail.buffered(starts, WAIT_S, 12) == (counts[-1], {(topic, 0): counts[-1]})
    calls = 0
    while counts[-1] < 100:  # all that the client has comes at once, however few a call gives
        counts.append(tail.buffered(starts, WAIT_S, 101)[0])
        calls += 1
    assert calls <= 100 // 5 // 2


def test_what_a_topic_has_deleted_is_not_in_memory(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
) -> None:
    topic = kafka_topic()
    send(kafka_broker, topic, 0, range(3))
    with pytest.raises(RangeUnavailableError):
        tail.buffered({(topic, 0): 50}, WAIT_S, 100)


def test_partitions_that_come_are_read_at_once(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tail: KafkaRangeReader
) -> None:
    topic = kafka_topic(1)
    send(kafka_broker, topic, 0, range(5))
    assert read(tail, {(topic, 0): (0, 5)}) == {(topic, 0): numbered(range(5))}
    admin = kafka_broker.admin()  # the request ends with the client
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_S)
    send(kafka_broker, topic, 1, range(4))
    assert read(tail, {(topic, 0): (5, 5), (topic, 1): (1, 4)}) == {(topic, 0): [], (topic, 1): numbered(range(1, 4))}
