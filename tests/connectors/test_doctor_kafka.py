"""``doctor`` on real topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dev.services.broker import LocalBroker

from crossline.cli.doctor import kafka as module
from crossline.cli.doctor.kafka import kafka_findings
from crossline.settings.config import load_pipeline

from .remaking import WAIT_S

pytestmark = pytest.mark.kafka

STREAM = """
  {name}:
    id: id
    event_time: {{field: at}}
    {ingest}
    fields: {{id: string, at: integer, received: integer}}"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is busy, too, is one that answers."""
    monkeypatch.setattr(module, "_ASK_S_MAX", WAIT_S)


def findings_of(broker: LocalBroker, topics: dict[str, str], ingest: str = "") -> dict[str, tuple[str, str]]:
    """Status and text by name: streams read ``topics``, by name, and alerts go to topic ``no-alerts``."""
    streams = "".join(STREAM.format(name=name, ingest=ingest) for name in topics)
    sources = "".join(
        f'\n  {name}: {{kind: kafka, brokers: "{broker.brokers}", topic: {topics[name]}}}' for name in topics
    )
    text = (
        f"schema_version: 1\nname: p\nstreams:{streams}\nsources:{sources}\nrules: {{kind: directory, path: rules}}\n"
        f'sinks: [{{kind: kafka, brokers: "{broker.brokers}", topic: no-alerts}}]\n'
    )
    pipeline = load_pipeline(text, "pipeline.yaml", str)
    return {each.name: (each.status, f"{each.found} | {each.advice}") for each in kafka_findings(pipeline, {})}


def test_a_topic_of_a_table_is_compacted(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    compacted, other = kafka_topic(3, config={"cleanup.policy": "compact"}), kafka_topic()
    text = (
        f"schema_version: 1\nname: p\nstreams:{STREAM.format(name='a', ingest='')}\n"
        "sources: {a: {kind: files, path: in}}\nrules: {kind: directory, path: rules}\n"
        "sinks: [{kind: console}]\nenrich:"
    )
    for name, topic in (("one", compacted), ("two", other), ("three", "no-such-table")):
        text += f'\n  {name}: {{kind: kafka, brokers: "{kafka_broker.brokers}", topic: {topic}, key: id, '
        text += "fields: {country: string}}"
    pipeline = load_pipeline(text, "pipeline.yaml", str)
    found = {each.name: each for each in kafka_findings(pipeline, {})}
    good, warned, missing = (found[f"topic {topic} of a table"] for topic in (compacted, other, "no-such-table"))
    assert (good.status, good.found) == ("ok", "there; compacted, of 3 partitions")
    assert (warned.status, warned.found) == ("warning", "there; cleanup.policy is delete")
    assert warned.advice.endswith("--add-config cleanup.policy=compact")
    assert missing.status == "missing"


def test_what_stamps_arrival_and_what_does_not(kafka_broker: LocalBroker, kafka_topic: Callable[..., str]) -> None:
    arrival, sender = kafka_topic(append_time=True), kafka_topic(append_time=False)
    findings = findings_of(kafka_broker, {"a": arrival, "b": sender, "c": "no-such-topic"})
    assert findings[f"kafka {kafka_broker.brokers}"] == ("ok", "answers; 1 broker | nothing to do")
    assert findings[f"topic {arrival}"] == ("ok", "there; stamps the time of arrival | nothing to do")
    status, text = findings[f"topic {sender}"]
    assert status == "warning"
    assert "message.timestamp.type is CreateTime" in text
    assert "--add-config message.timestamp.type=LogAppendTime" in text
    status, text = findings["topic no-such-topic"]
    assert status == "missing"
    assert "--create --topic no-such-topic --config message.timestamp.type=LogAppendTime" in text
    assert findings["topic no-alerts"][0] == "warning"


def test_records_with_their_own_ingest_time_need_no_stamp(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    topic = kafka_topic(append_time=False)
    findings = findings_of(kafka_broker, {"a": topic}, ingest="ingest_time: {field: received}")
    assert findings[f"topic {topic}"] == ("ok", "there; ingest time is the records' own field received | nothing to do")
