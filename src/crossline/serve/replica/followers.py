"""The followers: processes that are started, listened to, and started again where they end or say nothing."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace

from crossline.logs import get_logger
from crossline.serve.replica.messages import Alive, ForkNow, Hello, packed, received
from crossline.serve.replica.setup import FollowerSetup

PAUSE_S, PAUSE_S_MAX = 0.1, 10.0  # before a follower that ended is started again
SILENT_S_MAX = 10.0  # of one that has spoken
WELL_S = 30.0  # one that lived so long did not end because of how it is started

log = get_logger(__name__)


@dataclass(slots=True)
class _Follower:
    process: asyncio.subprocess.Process | None = None
    writer: asyncio.StreamWriter | None = None
    alive_s: float | None = None
    batch: int = -1


@dataclass
class Followers:
    """``count`` of them. ``spent_ms``: by what their time went to, of all since the start."""

    setup: FollowerSetup
    count: int
    spent_ms: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    _each: list[_Follower] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        """Start them; they connect when they are ready."""
        self._each = [_Follower() for _ in range(self.count)]
        self._tasks = [asyncio.create_task(self._keep(number)) for number in range(self.count)]

    async def close(self) -> None:
        """End them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._each:
            if each.process is not None and each.process.returncode is None:
                each.process.kill()
                await each.process.wait()
            if each.writer is not None:
                each.writer.close()

    def pids(self) -> list[int]:
        """Of those that run."""
        return [each.process.pid for each in self._each if each.process is not None and each.process.returncode is None]

    def fork_now(self, number: int) -> None:
        """Have a follower make a fork, though there was no batch."""
        writer = self._each[number].writer
        if writer is not None and not writer.is_closing():
            writer.write(packed(ForkNow()))

    async def receive(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Listen to a follower until it is gone."""
        mine = self._each[hello.number]
        mine.writer = writer
        try:
            while True:
                message = await received(reader)
                if isinstance(message, Alive):
                    mine.alive_s, mine.batch = time.monotonic(), message.batch
                    self.spent_ms.update(message.spent_ms)
        except (EOFError, ConnectionError, OSError):
            pass  # who keeps it sees that it ended
        finally:
            writer.close()

    async def _keep(self, number: int) -> None:
        """Have follower ``number`` run."""
        mine, pause_s = self._each[number], PAUSE_S
        while True:
            began_s = time.monotonic()
            mine.alive_s = None
            try:
                mine.process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "crossline.serve.replica", stdin=asyncio.subprocess.PIPE
                )
            except OSError as error:
                log.warning("a follower of the pipeline's state cannot be started yet", number=number, error=str(error))
                await asyncio.sleep(PAUSE_S_MAX)
                continue
            with suppress(ConnectionError):
                if mine.process.stdin is not None:
                    mine.process.stdin.write(replace(self.setup, number=number).to_json() + b"\n")
                    await mine.process.stdin.drain()
            code = await self._ended(mine)
            pause_s = PAUSE_S if time.monotonic() - began_s > WELL_S else min(2 * pause_s, PAUSE_S_MAX)
            self.restarts += 1
            log.warning("a follower of the pipeline's state ended; it is started again", number=number, code=code)
            await asyncio.sleep(pause_s)

    async def _ended(self, mine: _Follower) -> int:
        """Wait for the end of a follower; one that does not respond is ended."""
        assert mine.process is not None  # noqa: S101 - started just now
        while True:
            with suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(mine.process.wait()), 1.0)
            if mine.alive_s is not None and time.monotonic() - mine.alive_s > SILENT_S_MAX:
                log.warning("a follower of the pipeline's state does not respond; it is ended")
                mine.process.kill()
