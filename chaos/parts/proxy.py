"""A TCP proxy between the pipeline and a service: cuts connections, refuses them, holds their bytes, and recovers.

One thread with an event loop serves all proxies of a drill.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

CHUNK = 1 << 16
ANSWER_S_MAX = 30.0

T = TypeVar("T")


class Loop:
    """An event loop in a thread, for as long as the context lasts."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="proxies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(ANSWER_S_MAX)
        self.loop.close()

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        """Run it there, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(ANSWER_S_MAX)

    @staticmethod
    async def _cancel() -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Proxy:
    """Listens on ``port`` of the loopback address and hands on to ``target``, which may be named later."""

    def __init__(self, loop: Loop, target: int = 0) -> None:
        self.target = target
        self.port = 0
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._refuses = False
        self._open: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._loop.run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._close())

    def cut(self) -> None:
        """End all connections, and refuse new ones, until it heals."""
        self._loop.run(self._cut())

    def stall(self) -> None:
        """Hold all bytes, in both directions; connections stay, and new ones are taken."""
        self._loop.run(self._hold())

    def heal(self) -> None:
        """Accept and forward connections again."""
        self._loop.run(self._heal())

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._cut()

    async def _cut(self) -> None:
        self._refuses = True
        for writer in list(self._open):
            writer.transport.abort()

    async def _hold(self) -> None:
        self._flows.clear()

    async def _heal(self) -> None:
        self._refuses = False
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._open |= both
        ways = [
            asyncio.ensure_future(self._pipe(reader, far_writer)),
            asyncio.ensure_future(self._pipe(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            self._open -= both
            for each in both:
                each.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while data := await reader.read(CHUNK):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
