"""A pipeline on brokers that ask who is there; fields that are headers; messages that are no records."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from connectors.kafka_mock import WAIT_S, read_topic

from .project import Project
from .traffic import BASE_MS, STREAM, STREAMS

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
TLS = Path(__file__).parent.parent / "connectors" / "tls"
BOB = "s3cret \"of\\bob'"
RULE = {
    "rule_id": "twice_by_app",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": ["account", "channel"],
    "aggregation_type": "sum",
    "aggregation_field": "weight",
    "aggregation_threshold": 5,
    "window": "10m",
    "emit": "every",
    "conditions": [{"field": "channel", "operator": "==", "value": "app"}],
    "description": "{channel}: {value}",
}


def project_at(root: Path, broker: LocalBroker, topics: list[str], alerts: str) -> Project:
    """Topics in and out, under SASL over TLS; two fields are headers."""
    security = {
        "protocol": "sasl_ssl",
        "mechanism": "SCRAM-SHA-512",
        "username": "bob",
        "password_env": "BOB",
        "ca_file": str(TLS / "ca.pem"),
    }
    kafka = {"kind": "kafka", "brokers": broker.secured, "security": security}
    headers = {"channel": "string", "weight": {"header": "x-weight", "type": "integer"}}
    return Project(
        root,
        [RULE],
        streams={**STREAMS, STREAM: {**STREAMS[STREAM], "headers": headers}},
        sources={STREAM: {**kafka, "topic": ", ".join(topics)}},
        sinks=[{"kind": "sqlite", "path": "out/alerts.db"}, {**kafka, "topic": alerts}],
    )


def test_a_pipeline_on_brokers_that_ask_who_is_there(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("BOB", BOB)
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic()
    project = project_at(tmp_path, kafka_broker, topics, alerts)
    producer = Producer({"bootstrap.servers": kafka_broker.brokers, "enable.idempotence": True})

    def send(number: int, weight: str | None, channel: str | None, *, value: bool = True) -> None:
        at = BASE_MS + 1_000 * number
        body = {"id": f"p{number}", "account": "a1", "amount": 1, "kind": "web", "event_time": at}
        named = [("x-weight", weight), ("channel", channel), ("other", "x")]
        content: Any = [(name, each.encode()) for name, each in named if each is not None]
        producer.produce(
            topics[number % 2], json.dumps(body).encode() if value else None, partition=0, timestamp=at, headers=content
        )
        assert producer.flush(WAIT_S) == 0

    with project.start(spark) as running, caplog.at_level(logging.INFO):
        send(0, "3", "app")
        running.until_read(1)  # of the first batch Spark reads the records, of those behind it we do
        send(1, "4", "app")  # 7
        send(2, "9", "web")
        send(3, "9", None)
        send(4, "some", "app")
        send(5, None, None, value=False)
        send(6, "1", "app")  # 8
        running.until_read(7)
    found = sorted((each["record_id"], each["value"], each["message"]) for each in project.alerts().values())
    assert found == [("p1", 7, "app: 7"), ("p6", 8, "app: 8")]
    assert len(read_topic(kafka_broker.brokers, alerts)) == 2
    dead = project.rows('SELECT reason, detail, "offset", raw IS NULL OR length(raw) = 0 FROM dead_letters')
    assert sorted(dead) == [
        ("bad_header", 'header x-weight: found "some", expected integer', 2, 0),
        ("tombstone", "a message without a value", 2, 1),
    ]
    content = capfd.readouterr()
    everything = [content.out, content.err, caplog.text]
    everything += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not any("s3cret" in text for text in everything)
