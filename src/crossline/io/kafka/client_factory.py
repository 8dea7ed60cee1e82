"""Clients of librdkafka, and what brokers say to those that they do not let in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from crossline.basics.errors import UsageError
from crossline.io.kafka.client import SILENT

Client = TypeVar("Client")
ADVICE = "see username, password_env or password_file, mechanism and ca_file under `security`"
_TOLD_MIN = 2  # a connection that is cut in the midst may look like that, once
_NOT_LET_IN = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 - the client's public names
_WHEN = re.compile(r" \(after \d+ms in state \w+\)")
_WHERE = re.compile(r"^\w+://(\S+?)(?:/\w+)?: ")
_INTERNAL = re.compile(r"error:[0-9A-F]+:SSL routines::")


class ClientErrors:
    """Why a client is not let in: it goes on trying, and whoever waits for it would only hear that time is up.

    An ``error_cb``; it hears what there is when the client is polled.
    """

    def __init__(self) -> None:
        self._reason, self._times = "", 0
        self.disconnected = False  # whether the client was without any broker since

    def __call__(self, error: KafkaError) -> None:
        """Take what the client says."""
        if error.code() in _NOT_LET_IN:
            self._reason = _INTERNAL.sub("", _WHEN.sub("", _WHERE.sub(r"\1: ", error.str())))
            self._times += 1
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.disconnected = True

    def forget(self) -> None:
        """What is said from now on counts."""
        self._reason, self._times, self.disconnected = "", 0, False

    @property
    def reason(self) -> str | None:
        """What the brokers said, again and again; None where they let the client in, or nothing is known."""
        return self._reason if self._times >= _TOLD_MIN else None

    def reason_suffix(self) -> str:
        """The same, to stand behind another message."""
        return f" ({self._reason}; {ADVICE})" if self._reason else ""


def client_of(
    kind: Callable[..., Client], settings: Mapping[str, Any], client_errors: ClientErrors | None = None
) -> Client:
    """A client of librdkafka, which ``client_errors`` listens to; raises UsageError where it refuses its settings."""
    listened = {**settings} if client_errors is None else {**settings, "error_cb": client_errors}
    try:
        return kind(listened, logger=SILENT)
    except KafkaException as error:
        raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None
