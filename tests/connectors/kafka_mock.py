"""librdkafka's own broker in this process: real protocol, idempotent producers, no Java. And reading a topic whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

WAIT_S = 60.0


@pytest.fixture
def mock_brokers() -> Iterator[str]:
    """Address of brokers that live as long as the test."""
    host = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(host.list_topics(timeout=WAIT_S).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    del host


def read_topic(brokers: str, topic: str) -> list[Message]:
    """Every message of ``topic``, partition by partition."""
    settings = {"bootstrap.servers": brokers, "group.id": "reader", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(settings, logger=logging.getLogger("tests.kafka"))
    partitions = list(consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    messages: list[Message] = []
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(WAIT_S)
        assert message is not None, f"topic {topic} did not end"
        error = message.error()
        if error is None:
            messages.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
    consumer.close()
    return messages
