"""A fork as the process of the API has it: asked one thing at a time, and ended where it does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from crossline.serve.replica.messages import Answer, Ask, Hello, packed, received
from crossline.serve.replica.waiting import Ends


class LostError(Exception):
    """A fork is gone, or is to be. ``late``: it took too long; ``raised``: what it was asked raised there."""

    def __init__(self, text: str, *, late: bool = False, raised: bool = False) -> None:
        super().__init__(text)
        self.late, self.raised = late, raised


class Fork:
    """``number``: of its follower; ``upto``: the last record laid over it; ``as_of_s``: of its batch's commit.

    ``planned_s``: when its batch was planned; both on the wall clock.
    """

    def __init__(
        self,
        hello: Hello,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        checkpoint: str,
    ) -> None:
        self.number, self.pid, self.batch = hello.number, hello.pid, hello.batch
        self.as_of_s, self.planned_s = (_noted_s(checkpoint, log, self.batch) for log in ("commits", "offsets"))
        self.ends: Ends = {}
        self.upto: int | None = None  # it has nothing laid over it yet
        self.laying = asyncio.Lock()
        self.closed = False
        self._reader, self._writer = reader, writer
        self._lock = asyncio.Lock()

    async def ask(self, ask: Ask, within_s: float) -> Answer:
        """What comes of it. Raises LostError where that is nothing, or takes longer than ``within_s``."""
        async with self._lock:
            if self.closed or self._writer.is_closing():  # uvloop's transports raise RuntimeError when written to then
                raise LostError("it was ended meanwhile")
            try:
                answer: Any = await asyncio.wait_for(self._asked(ask), within_s)
            except TimeoutError:
                raise LostError(f"a call took longer than {within_s:g} s", late=True) from None
            except (EOFError, ConnectionError, OSError) as error:
                raise LostError(f"it ended ({error or type(error).__name__})") from None
        if answer.error:
            raise LostError(answer.error, raised=True)
        return answer  # type: ignore[no-any-return]

    async def _asked(self, ask: Ask) -> Any:
        self._writer.write(packed(ask))
        await self._writer.drain()
        return await received(self._reader)

    def close(self) -> None:
        """Nobody asks it any more: it ends by itself."""
        self.closed = True
        self._writer.close()

    def kill(self) -> None:
        """End it, also one that is stopped."""
        self.close()
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)


def _noted_s(checkpoint: str, log: str, batch: int) -> float:
    """When Spark noted ``batch`` in a ``log`` of its own, on the wall clock; of one that is not there, now."""
    with suppress(OSError):
        return (Path(checkpoint) / "spark" / log / str(batch)).stat().st_mtime
    return time.time()
