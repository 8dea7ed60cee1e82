"""The Kafka sink: topics, keys, headers, dead letters, unreachable brokers."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.io.kafka.errors import sink_error_of
from crossline.io.kafka.messages import entity_key
from crossline.io.kafka.sink import KafkaSink
from crossline.io.sinks.base import Delivery, Sink, build_sink, deliver_all
from crossline.io.sinks.jsonl import JsonlSink

from .kafka_mock import mock_brokers, read_topic
from .makers import alert, delivery

__all__ = ["mock_brokers"]
AWAY = "127.0.0.1:1"  # a reserved port, where nobody listens


def opened(brokers: str, **options: Any) -> KafkaSink:
    sink = KafkaSink(brokers, "alerts", clock_ms=lambda: 0, **options)
    sink.open()
    return sink


def ids(brokers: str, topic: str = "alerts") -> list[str]:
    return [dict(message.headers())["alert_id"].decode() for message in read_topic(brokers, topic)]


def test_a_message_is_the_alert_keyed_by_its_entity(mock_brokers: str) -> None:
    opened(mock_brokers).deliver(delivery(0, "t1"))
    [message] = read_topic(mock_brokers, "alerts")
    assert json.loads(message.value()) == alert("t1", delivered_at="1970-01-01T00:00:00.000Z")
    assert (message.key(), message.headers()) == (b"a1", [("alert_id", b"id-t1")])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ({"account_id": "å1"}, "å1".encode()),
        ({"a": "x", "b": 7}, b'["x",7]'),
        ({"n": 7}, b"[7]"),
        ({}, None),
    ],
)
def test_entities(key: dict[str, Any], expected: bytes | None) -> None:
    assert entity_key(key) == expected


def test_rules_with_a_topic_of_their_own(mock_brokers: str) -> None:
    alerts = [alert("t1"), alert("t2", sink_topic="alerts.cards"), alert("t3")]
    opened(mock_brokers).deliver(Delivery("p", 0, alerts=alerts))
    assert ids(mock_brokers) == ["id-t1", "id-t3"]
    assert ids(mock_brokers, "alerts.cards") == ["id-t2"]


def test_shadow_alerts_and_feeding_rules_are_never_sent(mock_brokers: str) -> None:
    alerts = [alert("t1", kind="shadow"), alert("t2"), alert("t3", emit_to_sink=False)]
    opened(mock_brokers).deliver(Delivery("p", 0, alerts=alerts))
    assert ids(mock_brokers) == ["id-t2"]


def test_dead_letters_go_to_their_topic_once_with_their_bytes(mock_brokers: str) -> None:
    letters = [
        DeadLetter("payments", "bad_json", "no end", "in/a", 5, b'{"a"', None),
        DeadLetter("payments", "duplicate_id", "came before", "in/a", 9, None, "t1"),
    ]
    for _ in range(2):
        opened(mock_brokers, dead_letter_topic="dead").deliver(Delivery("p", 0, dead=letters))
    found = [(m.key(), m.value() or b"", dict(m.headers())) for m in read_topic(mock_brokers, "dead")]
    where = {"stream": b"payments", "partition": b"in/a"}
    first = {"reason": b"bad_json", "detail": b"no end", "offset": b"5"}
    second = {
        "reason": b"duplicate_id",
        "detail": b"came before",
        "offset": b"9",
    }
    names = [headers.pop("dead_letter_id") for _, _, headers in found]
    assert sorted(name.rpartition(b"/")[0] for name in names) == [
        b"payments/in/a/5/bad_json",
        b"payments/in/a/9/duplicate_id",
    ]
    assert sorted(found, key=lambda each: each[2]["offset"]) == [
        (None, b'{"a"', {**first, **where}),
        (b"t1", b"", {**second, **where}),
    ]


def test_without_reading_back_a_restart_sends_again_with_the_same_id(mock_brokers: str) -> None:
    for _ in range(2):
        opened(mock_brokers, dedupe_tail=0).deliver(delivery(0, "t1"))
    assert ids(mock_brokers) == ["id-t1", "id-t1"]


def test_what_stands_further_back_than_the_tail_is_sent_again(mock_brokers: str) -> None:
    opened(mock_brokers).deliver(delivery(0, "t1", "t2", "t3"))
    opened(mock_brokers, dedupe_tail=2).deliver(delivery(0, "t1", "t2", "t3"))
    assert ids(mock_brokers) == ["id-t1", "id-t2", "id-t3", "id-t1"]


def test_records_of_others_in_the_topic_do_not_matter(mock_brokers: str) -> None:
    other = Producer({"bootstrap.servers": mock_brokers})
    other.produce("alerts", b"not ours", headers=[("alert_id", None)])
    other.produce("alerts", b"nor this")
    other.flush()
    opened(mock_brokers).deliver(delivery(0, "t1"))
    assert [m.value()[:8] for m in read_topic(mock_brokers, "alerts") if m.key() == b"a1"] == [b'{"schema']


@pytest.mark.parametrize("tail", [0, 100])
def test_a_broker_that_is_away_is_tried_again(tail: int) -> None:
    sink = opened(AWAY, dedupe_tail=tail, timeout_ms=200)
    for _ in range(2):
        with pytest.raises(SinkError):
            sink.deliver(delivery(0, "t1"))
    sink.close()


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("tail", [0, 100])
def test_brokers_that_are_away_hold_up_no_stop(tail: int, others: int, tmp_path: Path) -> None:
    """Were it to wait for the brokers, it would wait for longer than a test may take."""
    stop = threading.Event()
    sink = opened(AWAY, dedupe_tail=tail, timeout_ms=3_600_000)
    sinks: list[Sink] = [sink, *(JsonlSink(tmp_path / f"{n}", "p") for n in range(others))]
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    with capture_logs(), pytest.raises(SinkError):
        deliver_all(sinks, delivery(0, "t1"), stop=stop)
    for each in sinks:
        each.close()
    timer.join()


def test_a_batch_without_alerts_sends_no_request() -> None:
    opened(AWAY).deliver(delivery(0))


def test_what_was_acknowledged_is_not_sent_again_by_this_process(mock_brokers: str) -> None:
    sink = opened(mock_brokers, dedupe_tail=0)
    for _ in range(2):
        sink.deliver(delivery(1, "t1"))
    assert ids(mock_brokers) == ["id-t1"]


def test_an_alert_that_comes_again_in_a_later_batch_is_not_sent_again(mock_brokers: str) -> None:
    sink = opened(mock_brokers)
    sink.deliver(delivery(1, "t1", "t2"))
    sink.deliver(delivery(2, "t2", "t3"))
    sink.deliver(delivery(3, "t1", "t3"))
    assert ids(mock_brokers) == ["id-t1", "id-t2", "id-t3"]


def test_as_many_of_its_own_are_known_as_are_read_back(mock_brokers: str) -> None:
    sink = opened(mock_brokers, dedupe_tail=2)
    sink.deliver(delivery(1, "t1", "t2", "t3"))
    sink.deliver(delivery(2, "t1", "t2", "t3"))
    assert ids(mock_brokers) == ["id-t1", "id-t2", "id-t3", "id-t1"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._MSG_TIMED_OUT, SinkError),
        (KafkaError._ALL_BROKERS_DOWN, SinkError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, SinkError),
        (KafkaError.NOT_LEADER_FOR_PARTITION, SinkError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SinkError),
        (KafkaError.TOPIC_EXCEPTION, SinkError),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, PermanentError),
    ],
)
def test_errors_by_code(code: int, kind: type[Exception]) -> None:
    assert type(sink_error_of(KafkaError(code), "alerts")) is kind


def test_errors_by_their_flags() -> None:
    assert type(sink_error_of(KafkaError(KafkaError._FAIL, "lost its place", fatal=True), "alerts")) is SinkError
    assert type(sink_error_of(KafkaError(KafkaError._FAIL, "later", retriable=True), "alerts")) is SinkError


def test_a_missing_topic_says_what_to_do() -> None:
    assert "create the topic alerts" in str(sink_error_of(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "alerts"))


def test_settings_that_the_client_refuses() -> None:
    with pytest.raises(UsageError, match="refuses its settings"):
        opened("x", options={"no.such.setting": 1})


def test_a_password_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    security = {"protocol": "sasl_ssl", "mechanism": "PLAIN", "username": "u", "password_env": "KAFKA_PASSWORD"}
    settings = {"kind": "kafka", "brokers": "b:9092", "topic": "alerts", "security": security}
    with pytest.raises(PermanentError, match="KAFKA_PASSWORD"):
        build_sink(settings, "p")
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    sink = build_sink(settings, "p")
    assert isinstance(sink, KafkaSink)
    assert sink._client["sasl.password"] == "s3cret"


def settled(brokers: str, topic: str, records: int) -> None:
    """Wait until what was sent to the topic is there for readers of committed records, and its mark too."""
    while len(read_topic(brokers, topic)) < records:
        pass
    admin, names = AdminClient({"bootstrap.servers": brokers}), list[str]()
    while not names:
        groups = admin.list_consumer_groups().result(60)
        names = [each.group_id for each in groups.valid if topic in each.group_id]
    (name,) = names
    group = Consumer({"bootstrap.servers": brokers, "group.id": name})
    try:
        assert group.committed([TopicPartition(topic, 0)], timeout=60)[0].offset == 0
    finally:
        group.close()


@pytest.mark.kafka
def test_a_broker_that_crashes_between_and_during_batches(kafka_broker: Any) -> None:
    topic = kafka_broker.create_topic(f"alerts-{uuid.uuid4()}", partitions=2)
    batches = [
        replace(delivery(number, *(f"{number}-{i}" for i in range(50))), checkpoint=topic) for number in range(3)
    ]
    sink = KafkaSink(kafka_broker.brokers, topic, timeout_ms=2000)
    sink.open()
    deliver_all([sink], batches[0])
    # A broker that is alone and is killed before it has written the ends of a transaction never writes them.
    settled(kafka_broker.brokers, topic, 50)
    kafka_broker.kill()
    try:
        with pytest.raises(SinkError):
            sink.deliver(batches[1])
    finally:  # it is everybody's
        kafka_broker.start()
    for batch in batches[1:]:
        deliver_all([sink], batch)
    sink.close()
    assert ids(kafka_broker.brokers, topic) == [f"id-{number}-{i}" for number in range(3) for i in range(50)]


@pytest.mark.kafka
def test_reading_back_stops_at_the_end_of_every_partition(kafka_broker: Any) -> None:
    topic = kafka_broker.create_topic(f"alerts-{uuid.uuid4()}", partitions=5)
    alerts = [alert(f"t{i}", key={"account_id": f"a{i}"}) for i in range(300)]
    for _ in range(3):
        opened_again = KafkaSink(kafka_broker.brokers, topic)
        opened_again.open()
        deliver_all([opened_again], Delivery("p", 0, alerts=alerts))
        opened_again.close()
    assert sorted(ids(kafka_broker.brokers, topic)) == sorted(f"id-t{i}" for i in range(300))
