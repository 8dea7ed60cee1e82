"""The webhook sink: posts alerts and decisions to an address."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from crossline.basics.errors import SinkError
from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.sinks.base import Delivery, for_delivery, wall_clock_ms
from crossline.io.sinks.identity import id_bytes
from crossline.io.sinks.once_file import Line, OnceFile
from crossline.io.webhook.poster import Poster
from crossline.logs import get_logger
from crossline.settings.webhook import WebhookSettings

PAUSE_MS, PAUSE_MS_MAX = 200, 10_000  # between two attempts for one message: doubled each time

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """``name``: its id. ``about``: its entity or record; messages about one are posted in order."""

    name: str
    about: str
    body: Mapping[str, Any]


class WebhookSink:
    """Posts each alert, and decisions where configured, with its id in ``Idempotency-Key``.

    Guarantee: at least once, under one id, those of one entity (of decisions: of one record) in their order. What the
    address accepted is not posted again by this process; after a kill the batch is posted again as a whole. While the
    address is away or busy (429, 503) the batch is held. A message that is refused ``attempts`` times, or once for
    what is in it (400, 413, 422), is parked: a line in a file, with the answer, once; those behind it go on. Redirects
    are refusals: a signed message goes where it was meant to go. So is no whole status within ``timeout``, or none but
    an end of the connection, as long as the address answers something else (``OPTIONS``): else it is away.
    """

    def __init__(
        self, settings: WebhookSettings, pipeline: str, *, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._settings = settings
        self._clock_ms = clock_ms
        self._parked = OnceFile(Path(settings.parked), pipeline, _identity)
        self._poster = Poster(settings, clock_ms)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._batch_id: int | None = None
        self._delivered: set[str] = set()
        self._refusals: dict[str, int] = {}

    @classmethod
    def from_settings(cls, settings: WebhookSettings, pipeline: str) -> Self:
        """The sink that ``settings`` describe."""
        return cls(settings, pipeline)

    def open(self) -> None:
        """Take up the file; raises PermanentError without the key, or where the file is not this pipeline's."""
        self._poster.open()
        self._parked.open()

    def use_cancel_token(self, stop: threading.Event) -> None:
        """Give up soon after ``stop`` is set."""
        self._stop = stop
        self._poster.use_cancel_token(stop)

    def deliver(self, delivery: Delivery) -> None:
        """Post what the address has not accepted yet. Raises SinkError where it is unreachable or busy."""
        if delivery.batch_id != self._batch_id:
            self._batch_id = delivery.batch_id
            self._delivered.clear()
            self._refusals.clear()
        messages = [each for each in self._messages(delivery) if each.name not in self._delivered]
        messages.sort(key=lambda each: each.about)  # those of one entity stay in their order
        by_about = groupby(messages, key=lambda each: each.about)
        with ThreadPoolExecutor(self._settings.parallel, "webhook") as pool:
            failed = [each for each in pool.map(self._in_order, [list(group) for _, group in by_about]) if each]
        if failed:
            raise max(failed, key=lambda each: each.retry_after_ms or 0)

    def close(self) -> None:
        """Let go of the connections and the file."""
        self._poster.close()
        self._parked.close()

    def _messages(self, delivery: Delivery) -> Iterator[WebhookMessage]:
        now = format_instant(self._clock_ms())
        for alert in for_delivery(delivery):
            about = json_bytes(alert["key"]).decode()
            yield WebhookMessage(alert["alert_id"], about, {**alert, "delivered_at": now})
        if self._settings.decisions:
            for decision in delivery.decisions:
                about = f"{decision['stream']}/{decision['record_id']}"
                yield WebhookMessage(decision["decision_id"], about, decision)

    def _in_order(self, messages: Sequence[WebhookMessage]) -> SinkError | None:
        """Post the messages of one entity; the error that stopped them, None where all were accepted or parked."""
        for message in messages:
            try:
                self._post(message)
            except SinkError as error:
                return error
            with self._lock:
                self._delivered.add(message.name)
        return None

    def _post(self, message: WebhookMessage) -> None:
        """Post until the message is accepted or parked. Raises SinkError where neither is possible, or at a stop."""
        body = json_bytes(message.body)
        while True:
            refused, final = self._poster.post(message.name, body)
            if refused is None:
                return
            count = self._refusals[message.name] = self._refusals.get(message.name, 0) + 1
            if final or count >= self._settings.attempts:
                self._park(message, refused, count)
                return
            pause_ms = min(PAUSE_MS_MAX, PAUSE_MS << min(count - 1, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if self._stop.wait(pause_ms / 1_000):
                raise SinkError(f"stopped before {message.name} was accepted: {refused}")

    def _park(self, message: WebhookMessage, why: str, attempts: int) -> None:
        log.error("a message is parked", file=self._settings.parked, name=message.name, why=why, attempts=attempts)
        now = format_instant(self._clock_ms())
        line = {"schema_version": 1, "parked_at": now, "why": why, "attempts": attempts, "message": dict(message.body)}
        with self._lock:
            self._parked.append([line])


def _identity(line: Line) -> bytes:
    body = line["message"]
    return id_bytes(str(body["decision_id"] if "decision_id" in body else body["alert_id"]))
