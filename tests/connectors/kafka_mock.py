"""librdkafka's own broker in this process: real protocol, idempotent producers, no Java. And reading a topic whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

WAIT_S = 120.0
# Errors that the client reports and recovers from: a broker that is slow to answer, or that has just started.
PASSING = {
    *(KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._WAIT_COORD),
    *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT),
}


@pytest.fixture
def mock_brokers() -> Iterator[str]:
    """Address of brokers that live as long as the test."""
    host = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(host.list_topics(timeout=WAIT_S).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    del host


def read_topic(brokers: str, topic: str) -> list[Message]:
    """Every message that ``topic`` has, partition by partition."""
    settings = {"bootstrap.servers": brokers, "group.id": "reader", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(settings, logger=logging.getLogger("tests.kafka"))
    partitions = list(consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    messages: list[Message] = []
    open_ = set(partitions)
    while open_:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"topic {topic} did not end in partitions {open_}"
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            open_.discard(message.partition())  # reported again if a broker was away for a moment
        else:
            assert error.code() in PASSING, error
    consumer.close()
    return messages
