"""``crossline verify`` of a pipeline with a Kafka source reads the topic itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from dev.services.broker import LocalBroker

from crossline.cli.main import run_command
from unit.cli.verifykit import NOON_MS, PIPELINE, RECORDS, Shop, record


def sent(broker: LocalBroker, topic: str, records: list[dict[str, Any]], came_ms: list[int] | None = None) -> None:
    """Each to the partition of its account, at the time at which it happened, where no other is given."""
    producer = Producer({"bootstrap.servers": broker.brokers})
    for number, each in enumerate(records):
        at_ms = each["at"] if came_ms is None else came_ms[number]
        text = json.dumps(each, indent=1).encode()  # of several lines, as programs may write it
        producer.produce(topic, text, partition=int(each["account"] != "a"), timestamp=at_ms)
    assert producer.flush(20) == 0


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path)


def verified(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    run_command(["verify", "receipt.json", "--pipeline", "kafka.yaml", *options, "--json"])
    shown = capsys.readouterr()
    assert shown.out, shown.err
    found: dict[str, Any] = json.loads(shown.out)
    return found


def test_a_topic_is_read_and_judged_again(
    shop: Shop,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same by the broker's times; a late record is named by partition and offset; removed records are reported."""
    topic = kafka_topic(2, append_time=False)
    source = f"kind: kafka, brokers: '{kafka_broker.brokers}', topic: {topic}"
    Path("kafka.yaml").write_text(PIPELINE.replace("kind: api, path: in", source))
    shop.receipt()
    sent(kafka_broker, topic, RECORDS)
    found = verified(capsys)
    assert (found["result"], found["records"], found["notes"]) == ("the same", 5, [])
    other = verified(capsys, "--input", "payments=in")
    assert (other["result"], other["records"]) == ("the same", 5)
    # One of a minute later that the answer did not know of, and that happened before its record.
    late = {**record(9, 2), "at": NOON_MS + 2_500}
    sent(kafka_broker, topic, [late], [NOON_MS + 2_600])
    sent(kafka_broker, topic, [record(10, 3_600)])
    found = verified(capsys)
    assert found["records"] == 7
    assert verified(capsys, "--then")["records"] == 6, "what came an hour later is not read"
    admin = AdminClient({"bootstrap.servers": kafka_broker.brokers})
    admin.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0, 3)].result(20)
    found = verified(capsys)
    assert found["notes"] == [f"{topic}-0 begins at offset 3: figures that reach back before it can differ"]
    gone = [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 1)]
    for each in admin.delete_records(gone).values():
        each.result(20)
    capsys.readouterr()
    assert run_command(["verify", "receipt.json", "--pipeline", "kafka.yaml"]) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert f"topic {topic} no longer has the records: it begins at 2026-01-01T13:00:00.000Z" in text
    assert "name a copy of them with --input payments=FILE" in text


def test_a_topic_that_is_not_there_is_reported(
    shop: Shop, kafka_broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.receipt()
    source = f"kind: kafka, brokers: '{kafka_broker.brokers}', topic: nowhere"
    Path("kafka.yaml").write_text(PIPELINE.replace("kind: api, path: in", source))
    capsys.readouterr()
    assert run_command(["verify", "receipt.json", "--pipeline", "kafka.yaml"]) == 2
    assert "topic nowhere: " in capsys.readouterr().err
