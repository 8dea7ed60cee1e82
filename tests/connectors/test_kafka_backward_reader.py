"""Reads topics of a real broker backwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from dev.services.broker import LocalBroker

from crossline.basics.times import format_instant
from crossline.cli.alerts.record_origin import RecordOrigin
from crossline.cli.alerts.records import Seen, seen
from crossline.io.kafka import backward_reader as kafka_back
from crossline.io.kafka.backward_reader import BackwardTopicReader
from crossline.io.stores.protocol import StoredAlert
from crossline.settings.config import PipelineConfig, load_pipeline

from .remaking import WAIT_S, delete, producer_of

pytestmark = pytest.mark.kafka

FOR_S = 120.0
COUNT = 1_300  # of each partition: more than one step, of which the last is none of full length
PIPELINE = """
schema_version: 1
name: p
streams:
  payments: {{id: id, event_time: {{field: at, unit: ms}}, fields: {{id: string, at: integer, card: string}}}}
sources:
  payments: {{kind: kafka, brokers: "{brokers}", topic: {topic}}}
rules: {{kind: directory, path: rules}}
sinks: [{{kind: console}}]
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is busy, too, is one that answers."""
    monkeypatch.setattr(kafka_back, "_ASK_S", WAIT_S)


@pytest.fixture
def topic(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> str:
    """Two partitions; record number n of partition p is of card n % 10."""
    name = kafka_topic(2)
    producer = producer_of(kafka_broker)
    for number in range(COUNT):
        for partition in range(2):
            producer.produce(name, json.dumps(record(partition, number)).encode(), partition=partition)
    assert producer.flush(WAIT_S) == 0
    return name


def record(partition: int, number: int) -> dict[str, Any]:
    return {"id": f"{partition}/{number}", "at": 1_700_000_000_000 + number, "card": f"c{number % 10}"}


def shown(broker: LocalBroker, topic: str, ids: Collection[str], position: tuple[int, int] | None) -> Seen:
    config: PipelineConfig = load_pipeline(PIPELINE.format(brokers=broker.brokers, topic=topic), "pipeline.yaml", str)
    alert = {
        "stream": "payments",
        "key": {"card": "c7"},
        "record_id": next(reversed([*ids])),
        "event_time": format_instant(1_700_000_000_000),
        "ingest_time": format_instant(time.time_ns() // 1_000_000 + 60_000),
        "window_start": "2023-11-14T22:13:20.000Z",
        "window_end": "2023-11-14T22:13:20.000Z",
        "evidence": {"record_ids": list(ids)},
    }
    at = None if position is None else (f"{topic}-{position[0]}", position[1])
    return seen(StoredAlert(alert, "p", at), RecordOrigin(config.streams, config=config), None, lambda *_: (), FOR_S)


def test_records_of_several_partitions(kafka_broker: LocalBroker, topic: str) -> None:
    wanted = [(0, 7), (0, 657), (1, 7), (1, 797), (1, 1_297), (0, 1_207)]
    for position in ((0, 1_207), None):
        found = shown(kafka_broker, topic, [f"{p}/{n}" for p, n in wanted], position)
        assert not found.why
        assert {name: (row.partition, row.offset, row.fields) for name, row in found.found.rows.items()} == {
            f"{p}/{n}": (f"{topic}-{p}", n, record(p, n)) for p, n in wanted
        }


def test_records_behind_the_alert_and_those_of_another_key_are_none_of_it(
    kafka_broker: LocalBroker, topic: str
) -> None:
    found = shown(kafka_broker, topic, ["0/1217", "0/8", "0/1207"], (0, 1_207))
    assert list(found.found.rows) == ["0/1207"]
    assert found.why[0].startswith("2 of 3 records not found: the source was read back as far as it goes, ")


def test_records_that_the_topic_no_longer_has(kafka_broker: LocalBroker, topic: str) -> None:
    admin = kafka_broker.admin()
    for partition, offset in ((0, 658), (1, 10)):
        place = TopicPartition(topic, partition, offset)
        next(iter(admin.delete_records([place]).values())).result(WAIT_S)
    found = shown(kafka_broker, topic, ["0/647", "0/657", "0/667", "1/7", "1/17", "0/1207"], (0, 1_207))
    assert sorted(found.found.rows) == ["0/1207", "0/667", "1/17"]
    assert found.why[0].startswith("3 of 6 records not found")
    assert sorted(found.why[1:]) == [
        f"topic {topic}, partition 0 begins at offset 658 now",
        f"topic {topic}, partition 1 begins at offset 10 now",
    ]


def test_a_topic_that_is_gone_and_brokers_that_are_away(
    kafka_broker: LocalBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete(kafka_broker, topic)
    found = shown(kafka_broker, topic, ["0/7"], (0, 7))
    assert found.why[1:] == [f"topic {topic} is not there any more"]
    monkeypatch.setattr(kafka_back, "_ASK_S", 0.2)
    back = BackwardTopicReader({"bootstrap.servers": "127.0.0.1:1"}, [topic], None, 0, time.monotonic() + FOR_S)
    assert list(back.values()) == []
    assert back.gone[0].startswith(f"the brokers of {topic} cannot be reached")
