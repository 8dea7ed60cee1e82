"""A request that is being answered: until when, and who waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from crossline.serve.decisions.replies import Reply
from crossline.serve.decisions.values import Asked


@dataclass(slots=True)
class Flight:
    """One record, asked about by one request or by several of the same content; all of them get one answer.

    ``arrived_s``, ``deadline_s``, ``until_s``: on the loop's clock. ``expired``: done once the earliest deadline of
    those who wait has come; what is answered is written down then, until ``until_s``, when the reply has to be there.
    ``reply``: what all of them get.
    """

    asked: Asked
    arrived_s: float
    deadline_s: float
    until_s: float
    expired: asyncio.Future[None] = field(init=False)
    reply: asyncio.Future[Reply] = field(init=False)
    _timer: asyncio.TimerHandle = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        loop = asyncio.get_running_loop()
        self.expired = loop.create_future()
        self.reply = loop.create_future()
        self._timer = loop.call_at(self.deadline_s, self._expire)

    def hurry(self, deadline_s: float, until_s: float) -> None:
        """Somebody else asks the same, and waits no longer than this."""
        self.until_s = min(self.until_s, until_s)
        if deadline_s < self.deadline_s:
            self._timer.cancel()
            self.deadline_s = deadline_s
            self._timer = asyncio.get_running_loop().call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        if not self.expired.done():
            self.expired.set_result(None)

    def cancel(self) -> None:
        """Nobody waits for it."""
        self._timer.cancel()

    @property
    def late(self) -> bool:
        """Whether the deadline has come."""
        return self.expired.done()

    def land(self, reply: Reply) -> None:
        """All who wait get ``reply``."""
        self._timer.cancel()
        if not self.reply.done():
            self.reply.set_result(reply)
