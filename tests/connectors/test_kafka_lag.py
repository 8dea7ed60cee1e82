"""Consumer lag: records between the read offsets and the ends of topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewPartitions
from dev.services.broker import LocalBroker

from crossline.basics.errors import SourceError
from crossline.io.kafka import lag
from crossline.io.kafka.lag import TopicLag

from .remaking import WAIT_S, send

AWAY = "127.0.0.1:1"  # a reserved port, where nobody listens


@pytest.mark.kafka
def test_what_lies_behind_offsets(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "ANSWER_S_MAX", 60.0)
    first, second = kafka_topic(2), kafka_topic()
    behind = TopicLag({"bootstrap.servers": kafka_broker.brokers})
    assert behind(None) is None, "nothing was read, and where it begins is not known"
    assert behind({}) == 0
    assert behind({first: {"0": 0, "1": 0}}) == 0
    send(kafka_broker, first, 5)
    send(kafka_broker, first, 3, partition=1)
    send(kafka_broker, second, 2)
    assert behind({first: {"0": 1, "1": 3}, second: {"0": 0}}) == 4 + 0 + 2
    assert behind({first: {"0": 9}}) == 0, "a topic that lost records has none that wait"


@pytest.mark.kafka
def test_a_partition_that_came_later_counts_at_once(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client knew one partition, and had looked a moment ago."""
    monkeypatch.setattr(lag, "ANSWER_S_MAX", 60.0)
    topic = kafka_topic()
    behind = TopicLag({"bootstrap.servers": kafka_broker.brokers})
    assert behind({topic: {"0": 0}}) == 0
    admin = kafka_broker.admin()  # the request ends with the client
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_S)
    send(kafka_broker, topic, 3, partition=1)
    assert behind({topic: {"0": 0, "1": 1}}) == 2


def test_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "ANSWER_S_MAX", 0.3)
    with pytest.raises(SourceError, match="the brokers did not say where topics payments end"):
        TopicLag({"bootstrap.servers": AWAY})({"payments": {"0": 1}})
