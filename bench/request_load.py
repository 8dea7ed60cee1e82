"""An open-loop load of decision requests, in a process of its own: ``python -m bench.request_load SPEC OUT``.

Each request has a due time, and its latency counts from then. So a slow server does not slow its load, and waiting for
a connection counts. It uses HTTP/1.1 with persistent connections, requests encoded in advance, and httptools. ``OUT``
has the cost of a request in this process (``cpu_s``), how late it was sent, and whether the load has scheduling
priority (``apart``).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import httptools
import orjson
import uvloop

from bench.priority import raise_priority

LEAD_S = 0.5
REST_S_MAX = 15.0
_LATE_S = 0.05
_CLOCK_MONOTONIC, _NONBLOCK, _ABSOLUTE = 1, 0o4000, 1


class _TimerSpec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")]


class Timer:
    """A descriptor that can be read at an instant: timers of event loops are exact to a millisecond only."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = int(self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK))

    def ring_at(self, at_s: float) -> None:
        """Set the timer to this second of the monotonic clock."""
        ns = max(1, int(at_s * 1e9))
        spec = _TimerSpec(0, 0, ns // 10**9, ns % 10**9)
        if self._libc.timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(spec), None):
            raise SystemExit("no timer of the system's; this measurement needs Linux")


class RequestConnection(asyncio.Protocol):
    """One connection, with one request on it at a time."""

    def __init__(self, load: Load) -> None:
        self.load, self.number = load, -1
        self.parser, self.body = httptools.HttpResponseParser(self), b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.load.free(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.load.answered(self.number, self.parser.get_status_code(), self.body)
        self.number, self.body = -1, b""
        self.parser = httptools.HttpResponseParser(self)
        self.load.free(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.load.lost(self)

    def ask(self, number: int, request: bytes) -> None:
        """Send a request."""
        self.number = number
        self.transport.write(request)


class Load:
    """Requests by their number, when each is due, and what became of it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        lines = Path(spec["records"]).read_bytes().splitlines()
        head = (
            f"POST {spec['path']} HTTP/1.1\r\nHost: {spec['host']}:{spec['port']}\r\nContent-Type: application/json\r\n"
        )
        if spec.get("key"):
            head += f"Authorization: Bearer {spec['key']}\r\n"
        self.requests = [f"{head}Content-Length: {len(line)}\r\n\r\n".encode() + line for line in lines]
        # Milliseconds after the begin, of each; evenly spaced where there are none.
        due = spec.get("due_ms") or [number * 1e3 / spec["rate"] for number in range(len(lines))]
        self.due_s = [each / 1e3 for each in due]
        self.sent_s, self.done_s = [0.0] * len(lines), [0.0] * len(lines)
        self.answers: list[Any] = [None] * len(lines)
        self.idle: deque[RequestConnection] = deque()
        self.waiting: deque[int] = deque()
        self.next, self.left, self.began_s = 0, len(lines), 0.0
        self.over, self.broken = asyncio.Event(), 0

    async def run(self) -> None:
        """Send all requests."""
        loop = asyncio.get_running_loop()
        for _ in range(self.spec["connections"]):
            await loop.create_connection(lambda: RequestConnection(self), self.spec["host"], self.spec["port"])
        self.began_s = self.spec["begin_s"]
        await asyncio.sleep(max(0.0, self.began_s - time.time() - _LATE_S))
        self.shift_s = time.time() - time.perf_counter()
        timer = Timer()
        loop.add_reader(timer.fd, self._tick, timer)
        timer.ring_at(self.began_s - self.shift_s)
        try:
            async with asyncio.timeout(self.due_s[-1] + REST_S_MAX + self.began_s - time.time()):
                await self.over.wait()
        except TimeoutError:
            pass
        loop.remove_reader(timer.fd)

    def _tick(self, timer: Timer) -> None:
        os.read(timer.fd, 8)
        now_s = time.perf_counter() + self.shift_s - self.began_s
        while self.next < len(self.due_s) and self.due_s[self.next] <= now_s:
            number, self.next = self.next, self.next + 1
            while self.idle and self.idle[-1].transport.is_closing():
                self.idle.pop()  # the server has closed it
            if self.idle:
                self._ask(self.idle.pop(), number)
            else:
                self.waiting.append(number)
        if self.next < len(self.due_s):
            timer.ring_at(self.due_s[self.next] + self.began_s - self.shift_s)

    def _ask(self, connection: RequestConnection, number: int) -> None:
        self.sent_s[number] = time.perf_counter() + self.shift_s - self.began_s
        connection.ask(number, self.requests[number])

    def free(self, connection: RequestConnection) -> None:
        """The connection is free for the next request."""
        if self.waiting:
            self._ask(connection, self.waiting.popleft())
        else:
            self.idle.append(connection)

    def lost(self, connection: RequestConnection) -> None:
        """A connection is gone: with a request on it, that has no answer."""
        if connection in self.idle:
            self.idle.remove(connection)
        if self.over.is_set():
            return
        self.broken += 1
        if connection.number >= 0:
            self._ended()
        self._opening = asyncio.ensure_future(
            asyncio.get_running_loop().create_connection(
                lambda: RequestConnection(self), self.spec["host"], self.spec["port"]
            )
        )

    def answered(self, number: int, status: int, body: bytes) -> None:
        """An answer is there."""
        self.done_s[number] = time.perf_counter() + self.shift_s - self.began_s
        content = orjson.loads(body) if status == 200 else {}
        self.answers[number] = [status, content.get("answered"), content.get("decision"), content.get("decision_id")]
        self._ended()

    def _ended(self) -> None:
        self.left -= 1
        if not self.left:
            self.over.set()


def main() -> None:
    spec, out = orjson.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])

    apart = raise_priority()
    load = Load(spec)
    before = time.process_time()
    uvloop.run(load.run())
    cpu_s = time.process_time() - before
    figures = {"cpu_s": cpu_s, "broken": load.broken, "due_s": load.due_s, "sent_s": load.sent_s}
    out.write_bytes(orjson.dumps({**figures, "done_s": load.done_s, "answers": load.answers, "apart": apart}))


if __name__ == "__main__":
    main()
