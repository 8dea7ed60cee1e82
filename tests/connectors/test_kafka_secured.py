"""Secured brokers: which clients are accepted, and the errors of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from crossline.basics.errors import PermanentError, SinkError, UsageError
from crossline.cli.doctor.kafka import kafka_findings
from crossline.cli.generate import app, client_settings
from crossline.io.kafka.client import librdkafka_settings
from crossline.io.kafka.topics import TopicWatch
from crossline.io.sinks.base import Sink, build_sink, deliver_all
from crossline.settings.config import load_pipeline
from crossline.settings.kafka import KafkaSecurity

from .kafka_mock import read_topic
from .makers import delivery

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker

pytestmark = pytest.mark.kafka
HERE = Path(__file__).parent
TLS = HERE / "tls"
WRONG = "s3cret-that-is-wrong"
SCRAM = "SCRAM-SHA-512"
REFUSED = {
    "a wrong password": ({"password_env": "WRONG"}, "nvalid credentials"),
    "certificates of somebody else": ({"ca_file": str(TLS / "other-ca.pem")}, "certificate verify failed"),
    "a mechanism that the broker has not": ({"mechanism": "SCRAM-SHA-256"}, "Unsupported SASL mechanism"),
}


@pytest.fixture
def security(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """By mechanism, how a client is let in: a password in a file, and one in the environment."""
    # The two are written in tests/conftest.py, which no test can import.
    (tmp_path / "ann").write_text("s3cret,of-ann\n")
    monkeypatch.setenv("BOB", "s3cret \"of\\bob'")
    monkeypatch.setenv("WRONG", WRONG)
    both = {"protocol": "sasl_ssl", "ca_file": str(TLS / "ca.pem")}
    return {
        "PLAIN": {**both, "mechanism": "PLAIN", "username": "ann", "password_file": str(tmp_path / "ann")},
        SCRAM: {**both, "mechanism": SCRAM, "username": "bob", "password_env": "BOB"},
    }


def changed(given: dict[str, Any], change: dict[str, str]) -> dict[str, Any]:
    return {**given, **change}


def sink_at(broker: LocalBroker, topic: str, given: dict[str, Any]) -> Sink:
    sink = build_sink({"kind": "kafka", "brokers": broker.secured, "topic": topic, "security": given}, "p")
    sink.open()
    return sink


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM])
def test_a_sink_that_is_let_in(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], security: dict[str, dict[str, Any]], mechanism: str
) -> None:
    topic = kafka_topic()
    sink = sink_at(kafka_broker, topic, security[mechanism])
    deliver_all([sink], replace(delivery(0, "a"), checkpoint=topic))
    sink.close()
    assert [json.loads(m.value())["alert_id"] for m in read_topic(kafka_broker.brokers, topic)] == ["id-a"]


@pytest.mark.parametrize("checkpoint", ["", "of a pipeline"])
@pytest.mark.parametrize("case", list(REFUSED))
def test_a_sink_that_is_not_let_in_says_why(
    kafka_broker: LocalBroker, security: dict[str, dict[str, Any]], case: str, checkpoint: str
) -> None:
    change, why = REFUSED[case]
    sink = sink_at(kafka_broker, "alerts", changed(security[SCRAM], change))
    with pytest.raises(SinkError, match=f"{why}.*see username, password_env") as raised:
        sink.deliver(replace(delivery(0, "a"), checkpoint=checkpoint))
    sink.close()
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_source_that_is_not_let_in_says_why(
    kafka_broker: LocalBroker, security: dict[str, dict[str, Any]], case: str, tmp_path: Path
) -> None:
    change, why = REFUSED[case]
    asks = KafkaSecurity.model_validate(changed(security[SCRAM], change))
    client = librdkafka_settings(kafka_broker.secured, asks, {"BOB": "s3cret \"of\\bob'", "WRONG": WRONG})
    watch = TopicWatch(["payments"], client, tmp_path / "topics.json")
    with pytest.raises(PermanentError, match=f"brokers of topic payments do not let us in: .*{why}") as raised:
        watch.begin(None)
    watch.close()
    assert "s3cret" not in str(raised.value)


def test_doctor_says_who_is_let_in_and_why_others_are_not(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], security: dict[str, dict[str, Any]]
) -> None:
    topic, other = kafka_topic(), kafka_topic()
    environment = {"BOB": "s3cret \"of\\bob'", "WRONG": WRONG}

    def found(given: dict[str, Any]) -> dict[str, tuple[str, str]]:
        text = json.dumps(
            {
                "schema_version": 1,
                "name": "p",
                "rules": {"kind": "directory", "path": "rules"},
                "streams": {
                    "a": {"id": "id", "event_time": {"field": "at"}, "fields": {"id": "string", "at": "integer"}}
                },
                "sources": {
                    "a": {
                        "kind": "kafka",
                        "brokers": kafka_broker.secured,
                        "topic": f"{topic}, {other}",
                        "security": given,
                    }
                },
                "sinks": [{"kind": "console"}],
            }
        )
        findings = kafka_findings(load_pipeline(text, "pipeline.yaml", str), environment)
        return {each.name: (each.status, f"{each.found} | {each.advice}") for each in findings}

    let_in = found(security[SCRAM])
    assert {name: status for name, (status, _) in let_in.items()} == {
        f"kafka {kafka_broker.secured}": "ok",
        f"topic {topic}": "ok",
        f"topic {other}": "ok",
    }
    with ThreadPoolExecutor(len(REFUSED)) as at_once:  # each is asked for 5 s
        refused = at_once.map(found, [changed(security[SCRAM], change) for change, _ in REFUSED.values()])
    for body, (_, why) in zip(refused, REFUSED.values(), strict=True):
        [(status, text)] = body.values()
        assert status == "missing"
        assert why in text
        assert "see username" in text
        assert "s3cret" not in text


def test_generated_records_reach_a_broker_that_asks(
    kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, client = kafka_topic(), tmp_path / "client"
    client.write_text(
        "# who we are\n\nsecurity.protocol = sasl_ssl\nsasl.mechanism=PLAIN\nsasl.username=ann\n"
        f"sasl.password=s3cret,of-ann\nssl.ca.location={TLS / 'ca.pem'}\n"
    )
    where = ["--brokers", kafka_broker.secured, "--topic", topic, "--client", str(client)]
    done = CliRunner().invoke(app, ["tx", "--records", "5", *where])
    assert done.exit_code == 0, done.output
    assert len(read_topic(kafka_broker.brokers, topic)) == 5
    client.write_text("sasl.password")
    with pytest.raises(UsageError, match="client:1: expected name=value") as raised:
        client_settings(client)
    assert "sasl" not in str(raised.value)
