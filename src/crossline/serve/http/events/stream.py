"""One client of a stream: a bounded queue between the events and what it reads, heartbeats, an end with its reason.

A client that takes events more slowly than they happen is cut off: it goes on from the last id that it had, on its own
time, and holds nothing here meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from crossline.logs import get_logger
from crossline.serve.http.events.source import EventId, EventsGoneError, EventSource, LiveEvent

QUEUE_MAX = 1_000
HEARTBEAT_S = 15.0
SEND_S = 30.0
RETRY_MS = 1_000
_HEARTBEAT = b": heartbeat\n\n"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What a client listens to. ``key``: values that an event's key must have; ``after``: where it broke off."""

    kinds: Collection[str]
    key: Mapping[str, str]
    after: EventId | None = None

    def has(self, event: LiveEvent) -> bool:
        """Whether the filter lets this event through."""
        return event.kind in self.kinds and all(event.key.get(name) == value for name, value in self.key.items())


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How many events wait for a client, how often it hears that there are none, how long it may take to take one."""

    queue_max: int = QUEUE_MAX
    heartbeat_s: float = HEARTBEAT_S
    send_s: float = SEND_S


class EventStream(Response):
    """An ASGI answer of ``text/event-stream``. ``ended``: called once, at its end."""

    def __init__(
        self, source: EventSource, wanted: EventFilter, bounds: StreamLimits, ended: Callable[[], None]
    ) -> None:
        super().__init__()
        self._source = source
        self._wanted = wanted
        self._bounds = bounds
        self._ended = ended
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of ASGI
        """Send events until the client leaves, is cut off, or the server ends."""
        tasks = [
            asyncio.ensure_future(each)
            for each in (self._listen(), self._send_events(send), _until_disconnect(receive))
        ]
        try:
            # The listener ends by what it leaves in the queue; the other two end the whole.
            await asyncio.wait(tasks[1:], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            self._ended()
        for each in done:
            if isinstance(each, Exception) and not isinstance(each, TimeoutError | OSError):
                log.error("a client's events broke off", exc_info=each)

    async def _listen(self) -> None:
        """Put what happens into the queue, as long as there is room."""
        after = self._wanted.after
        try:
            while True:
                try:
                    if await self._follow(after):
                        return
                except EventsGoneError as error:
                    if after is None:
                        raise
                    self._waiting.put_nowait(
                        sse_message("gap", {"after": after, "why": str(error) or "it is not kept"})
                    )
                    after = None
                    continue
                self._waiting.put_nowait(
                    sse_message("end", {"why": "the server ends: listen again, with Last-Event-ID"})
                )
                return
        except Exception:
            log.exception("events cannot be followed")
            self._waiting.put_nowait(sse_message("end", {"why": "events cannot be followed now: listen again later"}))
        finally:
            self._waiting.put_nowait(None)

    async def _follow(self, after: EventId | None) -> bool:
        """Whether the client was cut off; not: whatever there is to follow has ended."""
        async with aclosing(_closing(self._source.follow(after))) as events:
            async for event in events:
                if not self._wanted.has(event):
                    continue
                if self._waiting.qsize() >= self._bounds.queue_max:
                    why = f"more than {self._bounds.queue_max:,} events waited: listen again, with Last-Event-ID"
                    self._waiting.put_nowait(sse_message("cut_off", {"why": why}))
                    return True
                self._waiting.put_nowait(as_text(event))
        return False

    async def _send_events(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(send, b"retry: %d\n\n" % RETRY_MS)
        while True:
            try:
                text = await asyncio.wait_for(self._waiting.get(), self._bounds.heartbeat_s)
            except TimeoutError:
                text = _HEARTBEAT
            if text is None:
                with suppress(TimeoutError):
                    await self._send(send, b"", more=False)
                return
            await self._send(send, text)

    async def _send(self, send: Send, text: bytes, *, more: bool = True) -> None:
        """A client that takes nothing for so long holds no more room here."""
        async with asyncio.timeout(self._bounds.send_s):
            await send({"type": "http.response.body", "body": text, "more_body": more})


def as_text(event: LiveEvent) -> bytes:
    """An event on the wire. Its id and its body are of one line each, whatever they hold."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (_line(event.id.encode()), event.kind.encode(), _line(event.body))


def sse_message(kind: str, body: Mapping[str, Any]) -> bytes:
    """An event about the events themselves, which has no id."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(body))


def _line(text: bytes) -> bytes:
    return text.replace(b"\r", b" ").replace(b"\n", b" ").replace(b"\0", b" ")


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _closing(events: AsyncIterator[LiveEvent]) -> Any:
    """As a generator, which is closed in any case."""
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
