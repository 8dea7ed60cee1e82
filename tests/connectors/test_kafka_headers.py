"""Messages with header names that are not UTF-8, which every client with write access can send."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import cimpl

from crossline.io.kafka.client import HeaderNameError, headers_of, read_headers
from crossline.io.kafka.control import ControlTopicReader
from crossline.io.kafka.idempotent_producer import KafkaDeadline, names_at_end

from .kafka_mock import mock_brokers, read_topic  # noqa: F401 - a fixture
from .remaking import WAIT_S, producer_of

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker

    from crossline.basics.message import TopicMessage

pytestmark = pytest.mark.kafka

_PRODUCER = 0
_END, _TOPIC, _VALUE, _KEY, _HEADER = 0, 1, 4, 5, 9  # RD_KAFKA_VTYPE_…, by which rd_kafka_producev knows what follows
NO_TEXT = b"\xff\xfe"


def send_with_header(brokers: str, topic: str, key: bytes, value: bytes, header: bytes) -> None:
    """As a client of another language does: that of Python takes no such name."""
    library = ctypes.CDLL(cimpl.__file__)  # which is linked with librdkafka
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = pointer
    error = ctypes.create_string_buffer(512)
    settings = pointer(library.rd_kafka_conf_new())
    for name, setting in ((b"bootstrap.servers", brokers.encode()), (b"enable.idempotence", b"true")):
        assert library.rd_kafka_conf_set(settings, name, setting, error, size(len(error))) == 0, error.value
    producer = pointer(library.rd_kafka_new(number(_PRODUCER), settings, error, size(len(error))))
    assert producer, error.value
    message = (number(_TOPIC), topic.encode(), number(_KEY), key, size(len(key)), number(_VALUE), value)
    headers = (number(_HEADER), header, b"x", ctypes.c_ssize_t(1))
    assert library.rd_kafka_producev(producer, *message, size(len(value)), *headers, number(_END)) == 0
    assert library.rd_kafka_flush(producer, number(int(WAIT_S * 1000))) == 0
    library.rd_kafka_destroy(producer)


def test_a_warm_call_reads_them_as_a_cold_one(mock_brokers: str) -> None:  # noqa: F811 - a fixture
    """CPython specialises a call after some runs, and then no longer checks what the client returns."""
    send_with_header(mock_brokers, "t", b"good", b"1", b"who")
    send_with_header(mock_brokers, "t", b"bad", b"1", NO_TEXT)
    read = {message.key(): message for message in read_topic(mock_brokers, "t")}
    for _ in range(1000):
        assert headers_of(read[b"good"]) == (("who", b"x"),)
    for _ in range(2):  # the client keeps what it returned first
        assert headers_of(read[b"bad"]) == ()
        with pytest.raises(HeaderNameError, match="of a header is not UTF-8"):
            read_headers(read[b"bad"])
    gc.collect()


def test_a_control_topic_is_read_on(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    topic = kafka_topic()
    send_with_header(kafka_broker.brokers, topic, b"rule/a/1", b"1", NO_TEXT)
    send_with_header(kafka_broker.brokers, topic, b"rule/a/2", b"2", b"who")
    reader = ControlTopicReader({"bootstrap.servers": kafka_broker.brokers}, topic)
    found: list[TopicMessage] = []
    deadline_s = time.monotonic() + WAIT_S
    while len(found) < 2:
        assert time.monotonic() < deadline_s
        found += reader.read(0.1)[0]
    reader.close()
    assert [(each.key, each.value, each.header("who")) for each in found] == [
        (b"rule/a/1", b"1", None),
        (b"rule/a/2", b"2", "x"),
    ]


def test_what_stands_in_a_topic_of_alerts_is_read_back(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    topic = kafka_topic()
    send_with_header(kafka_broker.brokers, topic, b"k", b"1", NO_TEXT)
    producer = producer_of(kafka_broker)
    producer.produce(topic, b"2", headers=[("alert_id", b"a2")])
    assert producer.flush(WAIT_S) == 0
    deadline = KafkaDeadline(WAIT_S, threading.Event())
    assert names_at_end({"bootstrap.servers": kafka_broker.brokers}, topic, 10, deadline) == {"a2"}
