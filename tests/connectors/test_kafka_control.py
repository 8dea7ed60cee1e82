"""Control topics of a real broker: reading, invalid topics, two concurrent publishers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.cli.doctor import control as doctor
from crossline.cli.doctor.kafka import kafka_findings
from crossline.cli.rules import topic
from crossline.cli.rules.topic import OpenControlTopic, publish_rules
from crossline.io.kafka.control import ControlTopicReader, ControlTopicWriter
from crossline.settings.config import load_pipeline

from .remaking import remake, send

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker

    from crossline.basics.message import TopicMessage

pytestmark = pytest.mark.kafka

WAIT_S = 120.0
FIELDS = {"payment_id": "string", "at": "integer", "amount": "integer"}


@pytest.fixture
def control(kafka_topic: Callable[..., str]) -> str:
    return kafka_topic(config={"cleanup.policy": "compact"})


@pytest.fixture
def reading(kafka_broker: LocalBroker) -> Iterator[Callable[[str], ControlTopicReader]]:
    readers: list[ControlTopicReader] = []

    def read(topic: str) -> ControlTopicReader:
        readers.append(ControlTopicReader({"bootstrap.servers": kafka_broker.brokers}, topic))
        return readers[-1]

    yield read
    for each in readers:
        each.close()


def read_until(reader: ControlTopicReader, count: int) -> list[TopicMessage]:
    """At least so many messages, and to the end."""
    found: list[TopicMessage] = []
    deadline_s = time.monotonic() + WAIT_S
    whole = False
    while len(found) < count or not whole:
        assert time.monotonic() < deadline_s, f"not in time: {found}"
        more, whole = reader.read(0.1)
        found += more
    return found


def test_messages_are_read_whole_and_as_they_come(
    kafka_broker: LocalBroker, control: str, reading: Callable[[str], ControlTopicReader]
) -> None:
    writer = ControlTopicWriter({"bootstrap.servers": kafka_broker.brokers}, control)
    reader = reading(control)
    assert read_until(reader, 0) == []
    assert writer.send("rule/a/1", b"x", {"who": "alice", "host": "desk"}) == 0
    writer.send("rule/a/1", None, {})
    first, second = read_until(reader, 2)
    assert (first.key, first.value, first.header("who"), first.header("host")) == (b"rule/a/1", b"x", "alice", "desk")
    assert (first.place, first.at_ms is not None) == (f"{control}/0/0", True)
    assert (second.offset, second.value, second.headers) == (1, None, ())
    writer.send("rule/b/1", b"y", {})
    assert [each.offset for each in read_until(reader, 1)] == [2]
    assert reader.trouble is None


def test_topics_that_are_no_control_topics(
    kafka_topic: Callable[..., str], reading: Callable[[str], ControlTopicReader]
) -> None:
    with pytest.raises(UsageError, match="found 2 partitions; expected one"):
        read_until(reading(kafka_topic(2)), 1)
    with pytest.raises(UsageError, match="found no topic nowhere; expected a compacted topic of one partition"):
        read_until(reading("nowhere"), 1)


def test_brokers_that_do_not_answer_give_nothing() -> None:
    reader = ControlTopicReader({"bootstrap.servers": "127.0.0.1:1"}, "control")
    assert reader.read() == ([], False)
    assert reader.trouble


def test_a_topic_made_anew_is_read_from_its_beginning_however_many_messages_it_has(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], reading: Callable[[str], ControlTopicReader]
) -> None:
    """A reader that missed it, as in a process that stood still: no offset shows it."""
    name = kafka_topic()
    send(kafka_broker, name, 2)
    reader = reading(name)
    assert [each.offset for each in read_until(reader, 2)] == [0, 1]
    reader.close()
    remake(kafka_broker, name)
    send(kafka_broker, name, 3)
    assert [each.offset for each in read_until(reader, 3)] == [0, 1, 2]
    assert reader.trouble is None


def written(amount: int) -> bytes:
    over = [{"field": "amount", "operator": ">", "value": amount}]
    rule = {"rule_id": "large", "version": 1, "rule_type": "threshold", "source_topic": "payments"}
    return yaml.safe_dump({**rule, "conditions": over}).encode()


def pipeline_of(broker: LocalBroker, control: str, folder: Path) -> Path:
    """A pipeline file in ``folder``, and beside it a rule, ``mine.yaml``."""
    streams = {"payments": {"id": "payment_id", "event_time": {"field": "at"}, "fields": FIELDS}}
    settings = {"kind": "kafka", "brokers": broker.brokers, "topic": control}
    sources = {"payments": {"kind": "files", "path": "in"}}
    whole = {"schema_version": 1, "name": "p", "streams": streams, "sources": sources, "rules": settings}
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(yaml.safe_dump({**whole, "sinks": [{"kind": "console"}]}))
    (folder / "mine.yaml").write_bytes(written(1))
    return pipeline


def test_of_two_who_publish_at_the_same_moment_the_first_stays(
    kafka_broker: LocalBroker,
    control: str,
    reading: Callable[[str], ControlTopicReader],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = pipeline_of(kafka_broker, control, tmp_path)
    send = OpenControlTopic.send

    def too_late(self: OpenControlTopic, key: str, value: bytes | None, author: str | None = None) -> int:
        self.writer.send(key, written(2), {"who": "bob"})
        return send(self, key, value, author)

    monkeypatch.setattr(OpenControlTopic, "send", too_late)
    with pytest.raises(PermanentError, match="bob published the same version at this moment and was first"):
        publish_rules(tmp_path / "mine.yaml", pipeline, "alice", as_json=True)
    found = read_until(reading(control), 3)
    assert [(each.value, each.header("who")) for each in found] == [
        (written(2), "bob"),
        (written(1), "alice"),
        (written(2), "bob"),
    ]


def test_brokers_that_go_away_once_it_is_sent_are_not_waited_for_for_ever(
    kafka_broker: LocalBroker, control: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(kafka_broker, control, tmp_path)
    send = OpenControlTopic.send

    def the_last(self: OpenControlTopic, key: str, value: bytes | None, author: str | None = None) -> int:
        offset = send(self, key, value, author)
        monkeypatch.setattr(ControlTopicReader, "read", lambda *_: ([], True))
        monkeypatch.setattr(topic, "WAIT_S", 0.0)
        return offset

    monkeypatch.setattr(OpenControlTopic, "send", the_last)
    with pytest.raises(SinkError, match="it is unknown whether another message was first"):
        publish_rules(tmp_path / "mine.yaml", pipeline, "alice", as_json=True)


def test_what_doctor_says_of_control_topics(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], control: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_ASK_S_MAX", WAIT_S)

    def findings(rules: str, lists: str) -> dict[str, tuple[str, str]]:
        places = {"kind": "kafka", "brokers": kafka_broker.brokers}
        streams = {"payments": {"id": "payment_id", "event_time": {"field": "at"}, "fields": FIELDS}}
        sources = {"payments": {"kind": "files", "path": "in"}}
        named = {"rules": {**places, "topic": rules}, "lists": {**places, "topic": lists}}
        whole = {"schema_version": 1, "name": "p", "streams": streams, "sources": sources, **named}
        text = yaml.safe_dump({**whole, "sinks": [{"kind": "console"}]})
        found = kafka_findings(load_pipeline(text, "pipeline.yaml", str), {})
        return {each.name: (each.status, f"{each.found} | {each.advice}") for each in found}

    kept, wide = kafka_topic(append_time=False), kafka_topic(2)
    first, second = findings(control, kept), findings(wide, "nowhere")
    assert first[f"control topic {control}"][0] == "ok"
    status, text = first[f"control topic {kept}"]
    assert (status, "cleanup.policy is delete, message.timestamp.type is CreateTime" in text) == ("warning", True)
    assert "--add-config cleanup.policy=compact,message.timestamp.type=LogAppendTime" in text
    assert "2 partitions; expected one" in second[f"control topic {wide}"][1]
    assert second["control topic nowhere"][0] == "missing"
