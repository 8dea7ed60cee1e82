"""Server-sent events: read line by line, and gone on with where the connection broke."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx

from crossline.client.calls import ApiCall
from crossline.client.deadline import Deadline, pause_s
from crossline.client.errors import BadAnswerError, UnreachableError, api_error
from crossline.client.values import Event
from crossline.client.wire import AGAIN, Wire

EVENT_BYTES_MAX = 16 << 20
PROBLEM_BYTES_MAX = 1 << 20
_PAUSE_FLOOR = 7  # tries: between connections of a stream at least a pause of that many


class Parser:
    """Bytes of a stream in, events out: of ``id``, ``event``, ``data``; comments and other fields are passed over."""

    def __init__(self, last_id: str | None = None) -> None:
        self._left = b""
        self._data: list[str] = []
        self._kind, self._size = "", 0
        self._id = self.last_id = last_id

    def feed(self, data: bytes) -> list[Event]:
        """The events that are whole now; raises BadAnswerError where one has no end."""
        text = self._left + data
        cut_cr = text.endswith(b"\r")  # its \n may be still to come
        lines = (text[:-1] if cut_cr else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._left = lines.pop() + (b"\r" if cut_cr else b"")
        found = [event for line in lines if (event := self._line(line.decode("utf-8", "replace"))) is not None]
        if len(self._left) + self._size > EVENT_BYTES_MAX:
            raise BadAnswerError(f"an event of more than {EVENT_BYTES_MAX >> 20} MiB")
        return found

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._event()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value or None
        return None

    def _event(self) -> Event | None:
        data, kind = "\n".join(self._data), self._kind or "message"
        self._data, self._kind, self._size = [], "", 0
        self.last_id = self._id  # only now: an event that broke off comes again
        if not data:
            return None
        try:
            return Event(self.last_id, kind, json.loads(data))
        except (ValueError, RecursionError):
            raise BadAnswerError(f"an event of kind {kind[:40]} that is no JSON: {data[:80]!r}") from None


async def follow(
    wire: Wire, call: ApiCall, last_id: str | None, *, silence_s: float, give_up_after_s: float | None
) -> AsyncGenerator[Event, None]:
    """Events after ``last_id``. It reconnects after the last received event if the connection breaks or is silent.

    Raises UnreachableError after ``give_up_after_s`` without a connection (None: never), ApiError if it is refused.
    """
    failed, patience = 0, None
    while True:
        parser = Parser(last_id)
        try:
            async with aclosing(_connection(wire, call, parser, silence_s)) as events:
                async for event in events:
                    failed, patience = 0, None
                    yield event
            why = "the server ended the stream"
        except (httpx.TransportError, TimeoutError, _NotNowError) as error:
            why = str(error) or type(error).__name__
        last_id = parser.last_id
        failed += 1
        if give_up_after_s is not None:
            patience = patience or Deadline(give_up_after_s)
            if patience.left_s <= 0:
                raise UnreachableError(f"{wire.url}: no events for {give_up_after_s:g} s ({failed} tries; {why})")
        await asyncio.sleep(pause_s(failed + _PAUSE_FLOOR))


class _NotNowError(Exception):
    """The server answered 503 or the like."""


async def _connection(wire: Wire, call: ApiCall, parser: Parser, silence_s: float) -> AsyncGenerator[Event, None]:
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    if parser.last_id is not None:
        headers["Last-Event-ID"] = parser.last_id
    async with asyncio.timeout(silence_s):
        response = await wire.open(call, headers)
    try:
        if response.status_code != 200:
            async with asyncio.timeout(silence_s):
                await _refused(wire, response)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise BadAnswerError(
                f"{response.url}: found {response.headers.get('content-type')}; expected an event stream"
            )
        parts = response.aiter_raw()
        while True:
            async with asyncio.timeout(silence_s):
                part = await anext(parts, None)
            if part is None:
                return
            for event in parser.feed(part):
                yield event
    finally:
        await response.aclose()


async def _refused(wire: Wire, response: httpx.Response) -> None:
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > PROBLEM_BYTES_MAX:
            break
    if response.status_code in AGAIN:
        raise _NotNowError(str(api_error(response.status_code, body)))
    if response.status_code < 400:
        raise BadAnswerError(f"{wire.url} answered {response.status_code}; expected 200 and an event stream")
    raise api_error(response.status_code, body, response.headers.get("retry-after"))
