"""What ``crossline doctor`` finds about the Kafka brokers and topics of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from crossline.cli.doctor.control import control_topic, table_topic
from crossline.cli.doctor.machine import CheckResult
from crossline.io.kafka.client import librdkafka_settings
from crossline.io.kafka.client_factory import ADVICE, ClientErrors, client_of
from crossline.settings.config import PipelineConfig
from crossline.settings.kafka import KafkaSecurity, KafkaSinkSettings, KafkaSourceSettings
from crossline.settings.sources import ControlTopic, RulesTopic
from crossline.settings.tables import TableOfTopic

_ASK_S_MAX = 5.0
_STAMP = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class _Use:
    """A topic of a pipeline. ``stream`` reads it, None if it is written; ``own_time``: field with ingest time.

    ``control``: rules or lists are read from it; ``table``: rows of a table.
    """

    topic: str
    brokers: str
    security: KafkaSecurity
    stream: str | None = None
    own_time: str | None = None
    control: bool = False
    table: bool = False


def kafka_findings(pipeline: PipelineConfig, environment: Mapping[str, str]) -> list[CheckResult]:
    """Whether each broker answers, each topic is there, and those read stamp the time of arrival. None for no Kafka."""
    findings: list[CheckResult] = []
    clients: dict[str, AdminClient | None] = {}
    for use in _uses(pipeline):
        if use.brokers not in clients:
            client, finding = _connect(use, environment)
            clients[use.brokers] = client
            findings.append(finding)
        client = clients[use.brokers]
        if client is not None:
            findings.append(_topic(client, use))
    return findings


def _uses(pipeline: PipelineConfig) -> list[_Use]:
    uses = []
    for name, source in pipeline.sources.items():
        if isinstance(source, KafkaSourceSettings):
            ingest = pipeline.streams[name].ingest_time
            own_time = ingest.field if ingest else None
            topics = [topic.strip() for topic in source.topic.split(",") if topic.strip()]
            uses += [_Use(topic, source.brokers, source.security, name, own_time) for topic in topics]
    for sink in pipeline.sinks:
        if isinstance(sink, KafkaSinkSettings):
            named = (sink.topic, *sink.topics, sink.dead_letter_topic, sink.late_topic, sink.corrections_topic)
            written = dict.fromkeys(topic for topic in named if topic is not None)
            uses += [_Use(topic, sink.brokers, sink.security) for topic in written]
    for settings in (pipeline.rules, pipeline.lists):
        if isinstance(settings, ControlTopic):
            uses.append(_Use(settings.topic, settings.brokers, settings.security, control=True))
            if isinstance(settings, RulesTopic) and settings.refusals_topic is not None:
                uses.append(_Use(settings.refusals_topic, settings.brokers, settings.security))
    for table in pipeline.tables.values():
        if isinstance(table, TableOfTopic):
            uses.append(_Use(table.topic, table.brokers, table.security, table=True))
    return list(dict.fromkeys(uses))


def _connect(use: _Use, environment: Mapping[str, str]) -> tuple[AdminClient | None, CheckResult]:
    name = f"kafka {use.brokers}"
    settings, client_errors = librdkafka_settings(use.brokers, use.security, environment), ClientErrors()
    client = client_of(AdminClient, settings, client_errors)
    try:
        count = len(client.list_topics(timeout=_ASK_S_MAX).brokers)
    except KafkaException as error:
        client.poll(0)
        if client_errors.reason is not None:
            return None, CheckResult(name, "missing", f"does not let us in: {client_errors.reason}", ADVICE)
        advice = "is it running, are `brokers` and `security` of the pipeline right?"
        return None, CheckResult(name, "missing", f"no answer in {_ASK_S_MAX:.0f} s: {error.args[0].str()}", advice)
    return client, CheckResult(name, "ok", f"answers; {count} broker{'s' if count > 1 else ''}")


def _topic(client: AdminClient, use: _Use) -> CheckResult:
    name = f"topic {use.topic}"
    there = client.list_topics(timeout=_ASK_S_MAX).topics.get(use.topic)
    if use.control:
        return control_topic(client, use.topic, there, use.brokers)
    if use.table:
        return table_topic(client, use.topic, there, use.brokers)
    if there is None:
        create = f"kafka-topics --bootstrap-server {use.brokers} --create --topic {use.topic}"
        if use.stream is None:
            return CheckResult(name, "warning", "not there; the broker may make it at the first alert", create)
        return CheckResult(
            name, "missing", f"not there; stream {use.stream} reads it", f"{create} --config {_STAMP}=LogAppendTime"
        )
    if use.stream is None:
        return CheckResult(name, "ok", "there")
    return _stamp(client, use, name)


def _stamp(client: AdminClient, use: _Use, name: str) -> CheckResult:
    """Where the ingest time of the topic's records comes from."""
    if use.own_time is not None:
        return CheckResult(name, "ok", f"there; ingest time is the records' own field {use.own_time}")
    resource = ConfigResource(ResourceType.TOPIC, use.topic)
    try:
        stamp = (
            client.describe_configs([resource], request_timeout=_ASK_S_MAX)[resource].result(_ASK_S_MAX)[_STAMP].value
        )
    except KafkaException as error:
        advice = (
            f"let this user describe the topic's configuration, or see to it yourself that {_STAMP} is LogAppendTime"
        )
        return CheckResult(name, "warning", f"there; its {_STAMP} is not to be had: {error.args[0].str()}", advice)
    if stamp == "LogAppendTime":
        return CheckResult(name, "ok", "there; stamps the time of arrival")
    alter = f"kafka-configs --bootstrap-server {use.brokers} --alter --entity-type topics --entity-name {use.topic}"
    return CheckResult(
        name,
        "warning",
        f"there; {_STAMP} is {stamp}: ingest time is what the senders' clocks say",
        f"{alter} --add-config {_STAMP}=LogAppendTime; or name a field as ingest_time of stream {use.stream}",
    )
