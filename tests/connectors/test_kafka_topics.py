"""Checks topics against a checkpoint: ids and offsets of a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from dev.services.broker import LocalBroker
from structlog.testing import capture_logs

from crossline.basics.errors import PermanentError, SourceError, StateError
from crossline.io.kafka import topics as kafka_topics
from crossline.io.kafka.topics import TopicWatch

from .remaking import WAIT_S, delete, remake, send

AWAY = "127.0.0.1:1"  # a reserved port, where nobody listens

kafka = pytest.mark.kafka


def watch(broker: LocalBroker, note: Path, *topics: str) -> TopicWatch:
    return TopicWatch(topics, {"bootstrap.servers": broker.brokers}, note)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "sources" / "payments" / "topics.json"


@kafka
def test_the_same_topics_are_read_on(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path) -> None:
    first, second = kafka_topic(), kafka_topic()
    watch(kafka_broker, note, first).begin(None)
    assert list(json.loads(note.read_text())) == [first]
    send(kafka_broker, first, 3)
    admin = kafka_broker.admin()  # the request ends with the client
    admin.create_partitions([NewPartitions(first, 3)])[first].result(WAIT_S)
    again = watch(kafka_broker, note, first, second)  # a topic that comes later is noted then
    again.begin({first: {"0": 3}})
    again.request()()
    assert sorted(json.loads(note.read_text())) == sorted([first, second])
    again.close()


@kafka
@pytest.mark.parametrize("records", [0, 3, 9])
def test_a_topic_made_again_is_refused_however_many_records_it_has(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path, records: int
) -> None:
    topic = kafka_topic()
    send(kafka_broker, topic, 3)
    watch(kafka_broker, note, topic).begin(None)
    remake(kafka_broker, topic)
    send(kafka_broker, topic, records)
    with pytest.raises(PermanentError, match=f"topic {topic} is not the one .*deleted and made again.*start anew"):
        watch(kafka_broker, note, topic).begin({topic: {"0": 3}})


@kafka
def test_a_topic_made_again_while_it_is_read(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path
) -> None:
    topic = kafka_topic()
    running = watch(kafka_broker, note, topic)
    running.begin(None)
    running.request()()
    remake(kafka_broker, topic)
    send(kafka_broker, topic, 9)
    with pytest.raises(PermanentError, match="deleted and made again"):
        running.request()()


@kafka
def test_a_checkpoint_from_before_notes_what_it_finds(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path
) -> None:
    topic = kafka_topic()
    send(kafka_broker, topic, 3)
    watch(kafka_broker, note, topic).begin({topic: {"0": 3}})
    remake(kafka_broker, topic)
    with pytest.raises(PermanentError, match="deleted and made again"):
        watch(kafka_broker, note, topic).begin({topic: {"0": 3}})
    note.unlink()  # as the error says, by who knows that the offsets hold
    send(kafka_broker, topic, 3)
    watch(kafka_broker, note, topic).begin({topic: {"0": 3}})


@kafka
def test_offsets_that_the_topic_does_not_have(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path
) -> None:
    topic = kafka_topic(2)
    send(kafka_broker, topic, 9, partition=1)
    for wanted in (0, 9):
        watch(kafka_broker, note, topic).begin({topic: {"1": wanted}})
    with pytest.raises(
        PermanentError, match=f"topic {topic}, partition 1: .*at offset 10, and the partition ends at 9"
    ):
        watch(kafka_broker, note, topic).begin({topic: {"0": 0, "1": 10}})
    with pytest.raises(PermanentError, match=f"topic {topic}, partition 2: .*at offset 1, and the partition ends at 0"):
        watch(kafka_broker, note, topic).begin({topic: {"2": 1}})
    admin = kafka_broker.admin()
    admin.delete_records([TopicPartition(topic, 1, 5)])[TopicPartition(topic, 1)].result(WAIT_S)
    watch(kafka_broker, note, topic).begin({topic: {"1": 5}})
    with pytest.raises(
        PermanentError, match=r"partition 1: records were deleted .*\(offset 4 comes next; it begins at offset 5"
    ):
        watch(kafka_broker, note, topic).begin({topic: {"1": 4}})


@kafka
def test_what_a_broker_says_that_comes_back_is_asked_again(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after eight seconds in which nobody let it run: its controller has taken it for gone."""
    topic = kafka_topic()
    send(kafka_broker, topic, 3)
    lines = [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION]

    class ComingBack(AdminClient):
        def list_offsets(self, places: dict[TopicPartition, Any], **options: Any) -> dict[TopicPartition, Any]:
            if not lines:
                return super().list_offsets(places, **options)
            failed: Future[Any] = Future()
            failed.set_exception(KafkaException(KafkaError(lines.pop())))
            return dict.fromkeys(places, failed)

    monkeypatch.setattr(kafka_topics, "AdminClient", ComingBack)
    watch(kafka_broker, note, topic).begin({topic: {"0": 3}})
    assert lines == []
    lines.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(SourceError, match="cannot be reached"):
        watch(kafka_broker, note, topic).begin({topic: {"0": 3}})


@kafka
def test_a_topic_that_is_not_there(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], note: Path) -> None:
    with pytest.raises(PermanentError, match="topic nobody-made-it is not there; create it"):
        watch(kafka_broker, note, "nobody-made-it").begin(None)
    topic = kafka_topic()
    running = watch(kafka_broker, note, topic)
    running.begin(None)
    delete(kafka_broker, topic)
    running.request()()  # what was read came from it; the next start shows that
    with pytest.raises(PermanentError, match="is not there"):
        watch(kafka_broker, note, topic).begin({topic: {"0": 0}})


def test_brokers_that_do_not_answer(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "ANSWER_S_MAX", 0.3)
    monkeypatch.setattr(kafka_topics, "WAIT_S_MAX", 0.1)
    away = TopicWatch(["payments"], {"bootstrap.servers": AWAY}, note)
    with pytest.raises(SourceError, match="topic payments cannot be reached"):
        away.begin(None)
    with capture_logs() as logs:
        away.request()()
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_a_note_that_is_damaged(note: Path) -> None:
    note.parent.mkdir(parents=True)
    note.write_text("{")
    with pytest.raises(StateError, match=r"topics\.json cannot be read"):
        TopicWatch(["payments"], {"bootstrap.servers": AWAY}, note).begin(None)
