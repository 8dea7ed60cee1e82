"""What ``crossline doctor`` finds about the topics that rules, lists and tables are read from."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType, TopicMetadata

from crossline.cli.doctor.machine import CheckResult

_ASK_S_MAX = 5.0
_WANTED = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}


def control_topic(client: AdminClient, topic: str, there: TopicMetadata | None, brokers: str) -> CheckResult:
    """Whether it is there, has one partition, is compacted, and has the broker's timestamps."""
    name = f"control topic {topic}"
    create = f"kafka-topics --bootstrap-server {brokers} --create --topic {topic} --partitions 1"
    for key, value in _WANTED.items():
        create += f" --config {key}={value}"
    if there is None:
        return CheckResult(name, "missing", "not there; rules or lists are read from it", create)
    if len(there.partitions) != 1:
        found = f"{len(there.partitions)} partitions; expected one, since what was published first is a matter of order"
        return CheckResult(name, "missing", found, f"make another topic: {create}")
    return _settings(
        client, CheckResult(name, "ok", "there; compacted, of one partition"), topic, brokers, _WANTED, create
    )


def table_topic(client: AdminClient, topic: str, there: TopicMetadata | None, brokers: str) -> CheckResult:
    """Whether it is there and is compacted; of partitions it may have any number."""
    name, wanted = f"topic {topic} of a table", {"cleanup.policy": "compact"}
    create = f"kafka-topics --bootstrap-server {brokers} --create --topic {topic} --config cleanup.policy=compact"
    if there is None:
        return CheckResult(name, "missing", "not there; its messages are the rows of a table", create)
    count = len(there.partitions)
    good = CheckResult(name, "ok", f"there; compacted, of {count} partition{'' if count == 1 else 's'}")
    return _settings(client, good, topic, brokers, wanted, create)


def _settings(
    client: AdminClient, good: CheckResult, topic: str, brokers: str, wanted_of_it: Mapping[str, str], create: str
) -> CheckResult:
    """``good``, where its settings are those that are wanted."""
    name = good.name
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        settings = client.describe_configs([resource], request_timeout=_ASK_S_MAX)[resource].result(_ASK_S_MAX)
    except KafkaException as error:
        advice = f"let this user describe the topic's configuration, or see to it yourself: {create}"
        return CheckResult(name, "warning", f"there; its settings are not to be had: {error.args[0].str()}", advice)
    mine = {key: str(settings[key].value) for key in wanted_of_it}
    others = {key: value for key, value in mine.items() if wanted_of_it[key] not in value.split(",")}
    if not others:
        return good
    text = ", ".join(f"{key} is {value}" for key, value in others.items())
    wanted = ",".join(f"{key}={wanted_of_it[key]}" for key in others)
    alter = f"kafka-configs --bootstrap-server {brokers} --alter --entity-type topics --entity-name {topic}"
    return CheckResult(name, "warning", f"there; {text}", f"{alter} --add-config {wanted}")
