"""The local broker: stamps arrival, keeps its data over a crash, ends with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Consumer, Message, Producer
from dev.services.broker import LocalBroker

from crossline.basics.errors import PermanentError

pytestmark = pytest.mark.kafka

WAIT_S = 120.0
_LONG_AGO_MS = 1_000_000_000_000
_OWNER = """
import sys
from dev.services.broker import LocalBroker
with LocalBroker(brief=True) as broker:
    print(broker.pid, broker.folder, flush=True)
    sys.stdin.read()
"""


def _send(brokers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True})
    producer.produce(topic, value, timestamp=_LONG_AGO_MS)
    assert producer.flush(WAIT_S) == 0


def _first(brokers: str, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def test_append_time_is_the_brokers(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    topic = kafka_topic()
    before_ms = time.time() * 1000
    _send(kafka_broker.brokers, topic, b"record")
    kind, stamp_ms = _first(kafka_broker.brokers, topic).timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms - 1 <= stamp_ms <= time.time() * 1000


def test_create_time_is_the_senders(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    topic = kafka_topic(append_time=False)
    _send(kafka_broker.brokers, topic, b"record")
    assert _first(kafka_broker.brokers, topic).timestamp() == (TIMESTAMP_CREATE_TIME, _LONG_AGO_MS)


def test_topics_have_their_partitions_and_only_one_name(kafka_broker: LocalBroker) -> None:
    kafka_broker.create_topic("three-parts", partitions=3)
    listed = kafka_broker.admin()
    assert len(listed.list_topics(timeout=WAIT_S).topics["three-parts"].partitions) == 3
    with pytest.raises(PermanentError, match="cannot create topic three-parts: Topic 'three-parts' already exists"):
        kafka_broker.create_topic("three-parts")


def test_a_crash_loses_neither_records_nor_address() -> None:
    with LocalBroker(brief=True) as broker:
        address = broker.brokers
        broker.create_topic("kept")
        _send(address, "kept", b"acknowledged")
        broker.kill()
        assert broker.pid is None
        broker.start()
        assert broker.brokers == address
        assert _first(address, "kept").value() == b"acknowledged"
        folder = broker.folder
    assert not folder.exists()


def test_the_broker_goes_with_its_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().decode().split()
        os.kill(int(pid), 0)
        owner.send_signal(signal.SIGKILL)  # nothing that the owner could do about it itself
        # The owner's output ends when the owner is gone; the broker's end follows from the pipe that closes with it.
        owner.stdout.read()
    _await(lambda: not Path(f"/proc/{pid}").exists() and not Path(folder).exists())


def _await(condition: Callable[[], bool]) -> None:
    """Neither process is our child: there is no event to wait for, so look until the time is up."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_outside_of_with_there_is_no_broker() -> None:
    with pytest.raises(PermanentError, match="use it as `with LocalBroker\\(\\) as server:`"):
        _ = LocalBroker().folder
