"""A request that is being answered: until when, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from crossline.serve.decisions.replies import HttpReply
from crossline.serve.decisions.values import SubmittedRecord

LEFT_S_MIN = 0.005  # for what is written down, where this process itself was late


@dataclass(slots=True)
class Flight:
    """One record, asked about by one request or by several of the same content; all of them get one answer.

    ``arrived_s``, ``deadline_s``, ``until_s``: on the loop's clock. ``late``: the earliest deadline of those who wait
    has come; what is answered is written down then, until ``until_s``, when the reply has to be there.
    """

    asked: SubmittedRecord
    arrived_s: float
    deadline_s: float
    until_s: float
    late: bool = False
    _waits: asyncio.Future[None] | None = None
    _bound: asyncio.Timeout | None = None
    _last: asyncio.Timeout | None = None
    _asking: list[asyncio.Future[HttpReply]] = field(default_factory=list)
    _timer: asyncio.TimerHandle = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._timer = asyncio.get_running_loop().call_at(self.deadline_s, self._expire)

    def hurry(self, deadline_s: float, until_s: float) -> None:
        """Somebody else asks the same, and waits no longer than this."""
        if until_s < self.until_s:
            self.until_s = until_s
            if self._last is not None:
                self._last.reschedule(self._left_until_s())
        if deadline_s < self.deadline_s:
            self._timer.cancel()
            self.deadline_s = deadline_s
            self._timer = asyncio.get_running_loop().call_at(deadline_s, self._expire)
            if self._bound is not None:
                self._bound.reschedule(deadline_s)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """What is done within has until the deadline; then it is cancelled, and TimeoutError raised."""
        try:
            async with asyncio.timeout_at(self.deadline_s) as self._bound:
                yield
        finally:
            self._bound = None

    @asynccontextmanager
    async def left(self) -> AsyncIterator[None]:
        """As ``in_time``, until the reply has to be there."""
        try:
            async with asyncio.timeout_at(self._left_until_s()) as self._last:
                yield
        finally:
            self._last = None

    def _left_until_s(self) -> float:
        return max(self.until_s, asyncio.get_running_loop().time() + LEFT_S_MIN)

    def _expire(self) -> None:
        self.late = True
        self._wake()

    def _wake(self, _: object = None) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    async def until(self, *futures: asyncio.Future[Any]) -> None:
        """Wait until all of ``futures`` are done, or the deadline has come; they go on whatever becomes of this."""
        for future in futures:
            while not (future.done() or self.late):
                self._waits = asyncio.get_running_loop().create_future()
                future.add_done_callback(self._wake)
                await self._waits
                future.remove_done_callback(self._wake)

    def reply(self) -> asyncio.Future[HttpReply]:
        """What the request that asks for it gets; a future of its own, since a caller that leaves cancels it."""
        asking: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
        self._asking.append(asking)
        return asking

    def land(self, reply: HttpReply) -> None:
        """All who wait get ``reply``."""
        self._timer.cancel()
        for asking in self._asking:
            if not asking.done():
                asking.set_result(reply)
