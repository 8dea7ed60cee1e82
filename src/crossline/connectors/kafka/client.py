"""What every Kafka client of ours shares: connection settings, for librdkafka and for Spark's Java client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from crossline.core.settings.kafka import KafkaSecurity


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


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
