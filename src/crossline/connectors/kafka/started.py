"""Clients of librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from crossline.core.basics.errors import UsageError

Client = TypeVar("Client")


def client_of(kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, Any]) -> Client:
    """A client of librdkafka; raises UsageError where it refuses its settings."""
    try:
        return kind(dict(settings))
    except KafkaException as error:
        raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None
