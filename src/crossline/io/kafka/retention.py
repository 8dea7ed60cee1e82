"""How long a topic keeps its records, by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType

from crossline.basics.errors import SourceError
from crossline.io.kafka.client_factory import client_of

ASK_S_MAX = 10.0
_POLICY, _MS, _BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
_DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Retention:
    """When a topic deletes records.

    Attributes:
        ms: A record may be deleted once it is so old; None: never because of its age.
        bytes: The oldest records of a partition are deleted once it has more bytes; None: never because of them.
        compacted: Whether older records of a key are deleted once there is a newer one.
    """

    ms: int | None
    bytes: int | None
    compacted: bool


def retention_of(topic: str, settings: Mapping[str, str]) -> Retention:
    """The retention of a topic.

    Args:
        topic: Its name.
        settings: Connection settings of librdkafka; see ``librdkafka_settings``.

    Raises:
        SourceError: The brokers do not answer, or this user may not describe the topic's configuration.
    """
    client = client_of(AdminClient, {**settings, "log_level": "0"})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = client.describe_configs([resource], request_timeout=ASK_S_MAX)[resource].result(ASK_S_MAX)
    except (KafkaException, TimeoutError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else f"no answer in {ASK_S_MAX:.0f} s"
        raise SourceError(
            f"topic {topic}: its configuration cannot be read: {reason}; let this user describe the topic"
        ) from None
    return read_retention({name: entry.value for name, entry in found.items() if isinstance(entry, ConfigEntry)})


def read_retention(values: Mapping[str, str | None]) -> Retention:
    """The retention that the configuration of a topic means.

    >>> read_retention({"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"})
    Retention(ms=604800000, bytes=None, compacted=False)
    """
    policies = {each.strip() for each in (values.get(_POLICY) or _DELETE).split(",")}
    deletes = _DELETE in policies
    return Retention(
        _limit(values.get(_MS)) if deletes else None,
        _limit(values.get(_BYTES)) if deletes else None,
        "compact" in policies,
    )


def _limit(value: str | None) -> int | None:
    """A limit of the configuration, where -1 is none."""
    return None if value is None or int(value) < 0 else int(value)
