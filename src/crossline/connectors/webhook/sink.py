"""Alerts and decisions posted to an address."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import urllib3

from crossline.connectors.base import Delivery, for_delivery, wall_clock_ms
from crossline.connectors.identity import id_bytes
from crossline.connectors.once_file import Line, OnceFile
from crossline.connectors.webhook.signing import HEADER, signature
from crossline.core.alerts.alertjson import json_bytes
from crossline.core.basics.errors import PermanentError, SinkError
from crossline.core.basics.times import format_instant
from crossline.core.settings.webhook import WebhookSettings
from crossline.logs import get_logger

PAUSE_MS, PAUSE_MS_MAX = 200, 10_000  # between two attempts for one message: doubled each time
_BUSY = {429, 503}  # of the whole address, not of one message
_NEVER = {400, 413, 422}  # of what is in the message: the next attempt has the same
_OK, _OK_END = 200, 300
_SAID_MAX = 300  # bytes of an answer that are told
AFTER_MS_MAX = 3_600_000  # that an address may ask for
_DIGITS = 9

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """``name``: the id that it is known by. ``about``: those of one entity or record are posted in order."""

    name: str
    about: str
    body: Mapping[str, Any]


class WebhookSink:
    """Posts each alert, and decisions where asked to, with its id in ``Idempotency-Key``.

    Guarantee: at least once, under one id, those of one entity (of decisions: of one record) in their order. What was
    taken of a batch is not posted again by this process; after a kill the batch is posted again as a whole. While the
    address is away or busy (429, 503) the batch is held. A message that is refused ``attempts`` times, or once for
    what is in it (400, 413, 422), is parked: a line in a file, with the answer, once; those behind it go on. Redirects
    are refusals: a signed message goes where it was meant to go.
    """

    def __init__(
        self, settings: WebhookSettings, pipeline: str, *, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._settings = settings
        # What stands behind the path may be a secret of its own.
        self._where = urlsplit(settings.url)._replace(query="", fragment="").geturl()
        self._clock_ms = clock_ms
        self._parked = OnceFile(Path(settings.parked), pipeline, _identity)
        self._pool: urllib3.PoolManager | None = None
        self._key = b""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._batch_id: int | None = None
        self._taken: set[str] = set()
        self._refusals: dict[str, int] = {}

    @classmethod
    def from_settings(cls, settings: WebhookSettings, pipeline: str) -> Self:
        """The sink that ``settings`` describe."""
        return cls(settings, pipeline)

    def open(self) -> None:
        """Take up the file; raises PermanentError without the key, or where the file is not this pipeline's."""
        settings = self._settings
        key = settings.password(os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
        if not key:
            raise PermanentError("the key that signs messages is empty: see password_env and password_file")
        self._key = key.encode()
        self._parked.open()
        seconds = settings.timeout / 1_000
        self._pool = urllib3.PoolManager(
            maxsize=settings.parallel,
            retries=False,
            timeout=urllib3.Timeout(connect=seconds, read=seconds),
            cert_reqs="CERT_REQUIRED",
            ca_certs=settings.ca_file,
        )

    def heed(self, stop: threading.Event) -> None:
        """Give up soon after ``stop`` is set."""
        self._stop = stop

    def deliver(self, delivery: Delivery) -> None:
        """Post what was not taken yet. Raises SinkError where the address is away or busy."""
        if delivery.batch_id != self._batch_id:
            self._batch_id = delivery.batch_id
            self._taken.clear()
            self._refusals.clear()
        messages = [each for each in self._messages(delivery) if each.name not in self._taken]
        messages.sort(key=lambda each: each.about)  # those of one entity stay in their order
        by_about = groupby(messages, key=lambda each: each.about)
        with ThreadPoolExecutor(self._settings.parallel, "webhook") as pool:
            failed = [each for each in pool.map(self._in_order, [list(group) for _, group in by_about]) if each]
        if failed:
            raise max(failed, key=lambda each: each.retry_after_ms or 0)

    def close(self) -> None:
        """Let go of the connections and the file."""
        if self._pool is not None:
            self._pool.clear()
            self._pool = None
        self._parked.close()

    def _messages(self, delivery: Delivery) -> Iterator[Message]:
        now = format_instant(self._clock_ms())
        for alert in for_delivery(delivery):
            about = json_bytes(alert["key"]).decode()
            yield Message(alert["alert_id"], about, {**alert, "delivered_at": now})
        if self._settings.decisions:
            for decision in delivery.decisions:
                about = f"{decision['stream']}/{decision['record_id']}"
                yield Message(decision["decision_id"], about, decision)

    def _in_order(self, messages: Sequence[Message]) -> SinkError | None:
        """Post those of one entity; why they have to wait, None where all were taken or parked."""
        for message in messages:
            try:
                self._post(message)
            except SinkError as error:
                return error
            with self._lock:
                self._taken.add(message.name)
        return None

    def _post(self, message: Message) -> None:
        """Until the message is taken, or parked. Raises SinkError where the address is away or busy, or at a stop."""
        body = json_bytes(message.body)
        while True:
            refused, final = self._attempt(message, body)
            if refused is None:
                return
            count = self._refusals[message.name] = self._refusals.get(message.name, 0) + 1
            if final or count >= self._settings.attempts:
                self._park(message, refused, count)
                return
            pause_ms = min(PAUSE_MS_MAX, PAUSE_MS << min(count - 1, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if self._stop.wait(pause_ms / 1_000):
                raise SinkError(f"stopped before {message.name} was taken: {refused}")

    def _attempt(self, message: Message, body: bytes) -> tuple[str | None, bool]:
        """Why the message was refused, None where it was taken; and whether it will be whenever it is posted."""
        if self._pool is None:
            raise PermanentError("the sink is not open")
        url, at_s = self._settings.url, self._clock_ms() // 1_000
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message.name,
            HEADER: signature(self._key, body, at_s),
        }
        try:
            answer = self._pool.request("POST", url, body=body, headers=headers, redirect=False, preload_content=False)
        except urllib3.exceptions.ReadTimeoutError:
            return f"no answer in {self._settings.timeout} ms", False
        except urllib3.exceptions.HTTPError as error:
            raise SinkError(f"{self._where} cannot be reached: {error}") from None
        try:
            said = f"{answer.status} {_said(answer)}".strip()
        finally:
            answer.release_conn()
        if _OK <= answer.status < _OK_END:
            return None, True
        if answer.status in _BUSY:
            raise SinkError(f"{self._where} is busy: {said}", _after_ms(answer.headers.get("Retry-After")))
        return said, answer.status in _NEVER

    def _park(self, message: Message, why: str, attempts: int) -> None:
        log.error("a message is parked", file=self._settings.parked, name=message.name, why=why, attempts=attempts)
        now = format_instant(self._clock_ms())
        line = {"schema_version": 1, "parked_at": now, "why": why, "attempts": attempts, "message": dict(message.body)}
        with self._lock:
            self._parked.append([line])


def _identity(line: Line) -> bytes:
    body = line["message"]
    return id_bytes(str(body["decision_id"] if "decision_id" in body else body["alert_id"]))


def _said(answer: urllib3.BaseHTTPResponse) -> str:
    """How the answer begins. Its status is what counts: what follows may be broken, or without an end."""
    raw = b""
    with suppress(urllib3.exceptions.HTTPError):
        raw = answer.read(_SAID_MAX, decode_content=False)
        if not answer.read(1, decode_content=False):
            return raw.decode(errors="replace")
    answer.close()  # the rest is not waited for, so that the connection serves no other message
    return raw.decode(errors="replace")


def _after_ms(header: str | None) -> int | None:
    """What ``Retry-After`` asks for, where it names seconds; it may not ask for the end of the world."""
    if header is None or not (header.isascii() and header.isdigit()):
        return None
    return min(int(header[:_DIGITS]) * 1_000, AFTER_MS_MAX)
