"""Posts one signed message to one address, once: accepted, rejected, or unreachable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from crossline.basics.errors import PermanentError, SinkError
from crossline.io.net.deadline import Deadline, NoAnswerError
from crossline.io.net.http import ConnectionClosedError, HttpAddress, Reply, UnreachableError
from crossline.io.sinks.base import wall_clock_ms
from crossline.io.webhook.signing import HEADER, signature
from crossline.settings.webhook import PostingSettings

AFTER_MS_MAX = 3_600_000  # that an address may ask for
_BUSY = {429, 503}  # of the whole address, not of one message
_UNREACHABLE = {502, 504}  # of what stands before the address
_NEVER = {400, 413, 422}  # of what is in the message: the next attempt has the same
_OK, _OK_END = 200, 300
_REASON_MAX = 300  # bytes of a response in an error text
_WHOLE_MAX = 65_536  # bytes of an answer that are read, so that its connection may serve again
_DIGITS = 9
_URL_SAFE = "%/?:@!$&'()*+,;=~"


class Poster:
    """Posts messages to the address of ``settings``. From any thread, once it is open.

    ``where``: the address for logs and errors, without its query, which may hold a secret.
    """

    def __init__(self, settings: PostingSettings, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._settings = settings
        parts = urlsplit(settings.url)
        self.where = parts._replace(query="", fragment="").geturl()
        target = parts._replace(scheme="", netloc="", fragment="", path=parts.path or "/").geturl()
        self._target = quote(target, _URL_SAFE)
        self._clock_ms = clock_ms
        self._address: HttpAddress | None = None
        self._key = b""
        self._stop = threading.Event()

    def open(self) -> None:
        """Read the key. Raises PermanentError without one. Sends no request."""
        settings = self._settings
        key = settings.password(os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
        if not key:
            raise PermanentError("the key that signs messages is empty: see password_env and password_file")
        self._key = key.encode()
        self._address = HttpAddress(settings.url, settings.ca_file, settings.parallel)

    def use_cancel_token(self, stop: threading.Event) -> None:
        """Give up soon after ``stop`` is set."""
        self._stop = stop

    def close(self) -> None:
        """Let go of the connections."""
        if self._address is not None:
            self._address.close()
            self._address = None

    def post(self, name: str, body: bytes) -> tuple[str | None, bool]:
        """Post ``body`` once, under the id ``name``, which is the ``Idempotency-Key``.

        Returns why it was rejected, None where it was accepted; and whether every retry will be rejected too.

        Raises SinkError where the address is away or busy, or at a stop.
        """
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": name,
            HEADER: signature(self._key, body, self._clock_ms() // 1_000),
        }
        try:
            reply = self._request("POST", body, headers)
        except NoAnswerError:
            return self._unanswered(name, f"no answer in {self._settings.timeout} ms"), False
        except ConnectionClosedError as error:
            return self._unanswered(name, f"it hung up: {error}"), False
        reason = f"{reply.status} {reply.body[:_REASON_MAX].decode(errors='replace')}".strip()
        if _OK <= reply.status < _OK_END:
            return None, True
        if reply.status in _BUSY:
            raise SinkError(f"{self.where} is busy: {reason}", _after_ms(reply.headers.get("Retry-After")))
        return reason, reply.status in _NEVER

    def _unanswered(self, name: str, why: str) -> str:
        """Why the message is rejected, where the address answers other requests. Raises SinkError where it does not."""
        if self._stop.is_set():
            raise SinkError(f"stopped before {name} was accepted: {why}")
        try:
            reply = self._request("OPTIONS")
        except (NoAnswerError, ConnectionClosedError):
            raise SinkError(f"{self.where} does not answer: {why}") from None
        if reply.status in _BUSY | _UNREACHABLE:
            raise SinkError(f"{self.where} does not answer: {why}; then {reply.status}")
        return why

    def _request(self, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        if self._address is None:
            raise PermanentError("the address is not open")
        deadline = Deadline(self._settings.timeout / 1_000, self._stop)
        request = partial(self._address.request, bytes_max=_WHOLE_MAX, status_counts=True)
        try:
            return request(method, self._target, deadline, body=body, headers=headers)
        except UnreachableError as error:
            raise SinkError(f"{self.where} cannot be reached: {error}") from None


def _after_ms(header: str | None) -> int | None:
    """The seconds of ``Retry-After`` in ms, up to a maximum; None without them."""
    if header is None or not (header.isascii() and header.isdigit()):
        return None
    return min(int(header[:_DIGITS]) * 1_000, AFTER_MS_MAX)
