"""Until when topics keep their records: by settings, and as a real broker has them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from dev.services.broker import LocalBroker

from crossline.erasure.registry import Surroundings
from crossline.erasure.unreachable import unreachable
from crossline.io.kafka.retention import TopicRetention, retention_texts
from crossline.settings.config import load_pipeline

from .remaking import WAIT_S, producer_of

NOW = 1_767_225_600_000  # 2026-01-01
DAY = 86_400_000
USUAL = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY),
    "retention.bytes": "-1",
    "segment.ms": str(DAY),
    "file.delete.delay.ms": "60000",
}
# Each of the records goes when its segment was closed (1 d), kept (7 d), found (5 min) and removed (1 min).
BY_TIME = "2026-01-09T00:06:00.000Z at the latest (retention.ms is 7 d, segment.ms 24 h)"
COMPACTED = "compacted: until a tombstone, or a later record, of the same key"


@pytest.mark.parametrize(
    ("changes", "last_ms", "until"),
    [
        ({}, NOW - DAY, BY_TIME),
        ({}, NOW + DAY, BY_TIME.replace("01-09", "01-10")),  # a sender's clock is ahead
        ({"retention.bytes": "1000000"}, NOW, f"{BY_TIME}; sooner when a partition has 1,000,000 bytes after them "),
        ({"retention.ms": "-1"}, NOW, "for ever: retention.ms and retention.bytes are -1"),
        ({"retention.ms": "-1", "retention.bytes": "5"}, NOW, "when a partition has 5 bytes after them (retention."),
        ({"cleanup.policy": "compact"}, NOW, COMPACTED),
        ({"cleanup.policy": "compact,delete"}, NOW, f"{COMPACTED}; or {BY_TIME}"),
        ({"cleanup.policy": "compact, delete", "retention.ms": "-1"}, NOW, f"{COMPACTED}; or for ever"),
        ({"retention.ms": "9223372036854775807"}, NOW, "the year 10000 at the latest"),
        ({}, 0, BY_TIME),
        ({}, None, "it has no records"),
    ],
)
def test_by_settings(changes: dict[str, str], last_ms: int | None, until: str) -> None:
    assert TopicRetention.of(USUAL | changes, last_ms).until(NOW).startswith(until)


PIPELINE = """
schema_version: 1
name: p
streams:
  s: {{id: id, event_time: {{field: at, unit: ms}}, fields: {{id: string, at: integer}}}}
sources: {{s: {{kind: kafka, brokers: "{brokers}", topic: "{topic}"}}}}
rules: {{kind: directory, path: rules/}}
sinks: [{{kind: kafka, brokers: "{brokers}", topic: "{out}", dead_letter_topic: not-there}}]
"""


@pytest.mark.kafka
def test_as_a_broker_has_them(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    usual = kafka_topic(config=USUAL)
    compacted = kafka_topic(config={"cleanup.policy": "compact"})
    empty = kafka_topic(2)
    producer = producer_of(kafka_broker)
    for topic in (usual, compacted):
        producer.produce(topic, b"v", b"k")  # a compacted topic takes no record without a key
    assert producer.flush(WAIT_S) == 0
    settings = {"bootstrap.servers": kafka_broker.brokers}
    found = {topic: until for topic, until, _ in retention_texts(settings, [usual, compacted, empty], 4 * NOW)}
    by_time = TopicRetention.of(USUAL, 0).until(4 * NOW)
    assert found == {usual: by_time, compacted: COMPACTED, empty: "it has no records"}
    text = PIPELINE.format(brokers=kafka_broker.brokers, topic=f"{usual}, {compacted}", out=empty)
    around = Surroundings(load_pipeline(text, "p.yaml", lambda _: ""))
    until = {each.place: each.until for each in unreachable(around) if "topic" in each.place}
    assert list(until) == [
        *(f"Kafka topic {usual}", f"Kafka topic {compacted}"),
        *(f"topic {empty} of sink 1 (kafka)", "topic not-there of sink 1 (kafka)"),
    ]
    assert "at the latest" in str(until[f"Kafka topic {usual}"])
    assert until[f"Kafka topic {compacted}"] == COMPACTED
    assert "no such topic" in str(until["topic not-there of sink 1 (kafka)"])


def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossline.io.kafka.retention.ANSWER_S_MAX", 0.2)
    text = PIPELINE.format(brokers="127.0.0.1:1", topic=",".join("abcdefghijklmnopqrst"), out="z")
    around = Surroundings(load_pipeline(text, "p.yaml", lambda _: ""))
    began_s = time.monotonic()
    found = [each for each in unreachable(around) if "topic" in each.place]
    assert [each.place for each in found[:2]] == ["Kafka topic a", "Kafka topic b"]
    assert time.monotonic() - began_s < 2, "they are asked once, not for each topic"
    assert all("retention.ms" in str(each.until) and "not known: " in str(each.until) for each in found)
