"""Deletes and recreates topics of a real broker."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from dev.services.broker import LocalBroker

WAIT_S = 120.0


def producer_of(broker: LocalBroker, **settings: str) -> Producer:
    """One whose record number n has offset n: what it has to send again is neither there twice nor out of order."""
    return Producer({"bootstrap.servers": broker.brokers, "enable.idempotence": True, **settings})


def send(broker: LocalBroker, topic: str, count: int, partition: int = 0) -> None:
    producer = producer_of(broker)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(WAIT_S) == 0


def delete(broker: LocalBroker, topic: str) -> None:
    admin = broker.admin()
    admin.delete_topics([topic], operation_timeout=WAIT_S)[topic].result(WAIT_S)
    deadline_s = time.monotonic() + WAIT_S
    while topic in admin.list_topics(timeout=WAIT_S).topics:  # a broker learns of it a moment later
        assert time.monotonic() < deadline_s


def remake(broker: LocalBroker, topic: str, partitions: int = 1) -> None:
    delete(broker, topic)
    broker.create_topic(topic, partitions)
