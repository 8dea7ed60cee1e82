"""Makes librdkafka clients, and collects the reason why a broker rejects one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from crossline.basics.errors import UsageError
from crossline.io.kafka.client import SILENT

Client = TypeVar("Client")
ADVICE = "see username, password_env or password_file, mechanism and ca_file under `security`"
_REPORTS_MIN = 2  # a connection that breaks during its handshake reports the same error once
_NOT_LET_IN = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 - the client's public names
_WHEN = re.compile(r" \(after \d+ms in state \w+\)")
_WHERE = re.compile(r"^\w+://(\S+?)(?:/\w+)?: ")
_INTERNAL = re.compile(r"error:[0-9A-F]+:SSL routines::")


class ClientErrors:
    """Collects the authentication and TLS errors of a client. The client retries them without end.

    An ``error_cb``: librdkafka calls it from ``poll``.
    """

    def __init__(self) -> None:
        self._reason, self._times = "", 0
        self.disconnected = False  # whether the client lost all brokers since ``forget``

    def __call__(self, error: KafkaError) -> None:
        """Note an error of the client."""
        if error.code() in _NOT_LET_IN:
            self._reason = _INTERNAL.sub("", _WHEN.sub("", _WHERE.sub(r"\1: ", error.str())))
            self._times += 1
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.disconnected = True

    def forget(self) -> None:
        """Drop all errors so far."""
        self._reason, self._times, self.disconnected = "", 0, False

    @property
    def reason(self) -> str | None:
        """Why the brokers reject the client; None where they accept it, or before the second error."""
        return self._reason if self._times >= _REPORTS_MIN else None

    def reason_suffix(self) -> str:
        """The last error and advice, in parentheses, to append to another message; empty where there is none."""
        return f" ({self._reason}; {ADVICE})" if self._reason else ""


def client_of(
    kind: Callable[..., Client], settings: Mapping[str, Any], client_errors: ClientErrors | None = None
) -> Client:
    """A librdkafka client, whose errors go to ``client_errors``. Raises UsageError where its settings are invalid."""
    listened = {**settings} if client_errors is None else {**settings, "error_cb": client_errors}
    try:
        return kind(listened, logger=SILENT)
    except KafkaException as error:
        raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None
