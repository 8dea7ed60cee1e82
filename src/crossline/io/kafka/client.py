"""What all Kafka clients share: connection settings, for librdkafka and for Spark's Java client; message headers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.settings.kafka import KafkaSecurity, KafkaSourceSettings

if TYPE_CHECKING:
    from confluent_kafka import Message

_ISOLATION = "isolation.level"

# The client library's own log lines are dropped. Its failures reach the caller as errors, or the log as a held batch.
SILENT = logging.getLogger("crossline.kafka_client")
SILENT.propagate = False
SILENT.addHandler(logging.NullHandler())

Headers = tuple[tuple[str, bytes | None], ...]

# Where the name of a header is not UTF-8, confluent-kafka (2.16.1) sets an exception and still returns a list, in which
# the name is a null pointer. A call through CPython's general protocol checks this and raises SystemError. The
# specialised call instruction, by which a warm ``message.headers()`` runs, does not check: the process crashes as soon
# as the name is unpacked. `methodcaller` always calls through the general protocol.
_call_headers = methodcaller("headers")
# The message keeps the broken list, and would return it from a second call without an exception: this replaces it.
_UNREADABLE: list[tuple[str, bytes]] = []


class HeaderNameError(ValueError):
    """The name of a header of a message is not UTF-8."""


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def librdkafka_settings(brokers: str, security: KafkaSecurity, environment: Mapping[str, str]) -> dict[str, str]:
    """Connection settings for confluent-kafka."""
    settings = {"bootstrap.servers": brokers, "security.protocol": security.protocol}
    if security.mechanism is not None:
        settings |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username or "",
            "sasl.password": security.password(environment, _read) or "",
        }
    if security.ca_file is not None:
        settings["ssl.ca.location"] = security.ca_file
    return settings


def reading_settings(source: KafkaSourceSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """As ``librdkafka_settings``, for a consumer beside Spark that has to read the same records as Spark's source.

    Spark reads aborted transactions too, unless the source's options set ``isolation.level``; librdkafka's default does
    not.
    """
    level = str(source.options.get(_ISOLATION, "read_uncommitted"))
    return {**librdkafka_settings(source.brokers, source.security, environment), _ISOLATION: level}


def java_settings(security: KafkaSecurity, environment: Mapping[str, str]) -> dict[str, str]:
    """Connection settings for Spark's Kafka source, without the brokers."""
    settings = {"kafka.security.protocol": security.protocol.upper()}
    if security.mechanism is not None:
        module = (
            "org.apache.kafka.common.security.plain.PlainLoginModule"
            if security.mechanism == "PLAIN"
            else "org.apache.kafka.common.security.scram.ScramLoginModule"
        )
        password = _quoted(security.password(environment, _read) or "")
        user = _quoted(security.username or "")
        settings |= {
            "kafka.sasl.mechanism": security.mechanism,
            "kafka.sasl.jaas.config": f"{module} required username={user} password={password};",
        }
    if security.ca_file is not None:
        settings |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": security.ca_file}
    return settings


def read_headers(message: Message) -> Headers:
    """The headers of ``message``. Raises HeaderNameError where the name of one is not UTF-8."""
    try:
        found = _call_headers(message)
    except (SystemError, UnicodeDecodeError) as error:
        message.set_headers(_UNREADABLE)
        raise HeaderNameError(_place_of(message)) from error
    if found is _UNREADABLE:
        raise HeaderNameError(_place_of(message))
    return tuple((name, value) for name, value in found or ())


def headers_of(message: Message) -> Headers:
    """The headers of ``message``; none where the name of one is not UTF-8.

    Every client that may write to a topic may send such a message. No reader stops at it.
    """
    try:
        return read_headers(message)
    except HeaderNameError:
        return ()


def _place_of(message: Message) -> str:
    place = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
    return f"{place}: the name of a header is not UTF-8"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
