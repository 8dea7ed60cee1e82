"""The bytes of single records, read again from a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from crossline.connectors import kafka_fetch
from crossline.connectors.kafka_broker import LocalBroker
from crossline.connectors.kafka_fetch import KafkaFetch

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> str:
    """Two partitions with three records each, the last of them without a value."""
    name = kafka_topic(2)
    producer = Producer({"bootstrap.servers": kafka_broker.brokers, "acks": "all"})
    for value in (b"0", b"1", None):
        for partition in range(2):
            producer.produce(name, None if value is None else b"%d/%s" % (partition, value), partition=partition)
    assert producer.flush(60) == 0
    return name


def test_any_record_in_any_order_and_again(kafka_broker: LocalBroker, topic: str) -> None:
    fetch = KafkaFetch({"bootstrap.servers": kafka_broker.brokers})
    asked = [(1, 1), (0, 0), (1, 0), (0, 2), (0, 1), (1, 1)]
    found = [fetch(f"{topic}-{partition}", offset) for partition, offset in asked]
    assert found == [b"1/1", b"0/0", b"1/0", None, b"0/1", b"1/1"]


def test_what_is_not_there_is_none(kafka_broker: LocalBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = KafkaFetch({"bootstrap.servers": kafka_broker.brokers, "log_level": "0"})
    with monkeypatch.context() as patch:
        patch.setattr(kafka_fetch, "WAIT_S", 0.5)
        assert fetch(f"{topic}-0", 3) is None
        assert fetch("nobody-made-this-0", 0) is None
    assert fetch(f"{topic}-0", 1) == b"0/1"
