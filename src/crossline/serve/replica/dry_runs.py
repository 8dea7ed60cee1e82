"""Dry runs as the process of the API has them: judged apart, and never at the cost of those who really ask.

A fork makes a copy of itself for all that wait, which answers by itself while the fork goes on. That costs the fork
some milliseconds. So one copy is under way at a time, and the next begins late enough that they take no more than a
share of the time. Who asks for the figures of a key is answered by such a copy too.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from crossline.serve.decisions.values import AsOf, Basis, NotJudgedError, RecordVerdict, SubmittedRecord
from crossline.serve.fault_log import TellableError
from crossline.serve.replica.answers import verdict_of
from crossline.serve.replica.entity import KeyAsked, KeyFigures
from crossline.serve.replica.messages import WITHIN_S, ForkReply, Hello, received
from crossline.serve.replica.overlay import Laid

AT_ONCE = 20  # dry runs that one copy judges
EARLY_S = 0.001
SHARE = 0.2  # of the time, at most, one is under way


@dataclass(eq=False)
class Dry:
    """Records of a dry run, and who waits for their answers."""

    asked: Sequence[SubmittedRecord]
    answer: asyncio.Future[list[RecordVerdict | NotJudgedError]]

    def request(self) -> list[Laid]:
        """The records as sent to the fork."""
        return [Laid(each.stream, each.record_id, each.raw, each.ingest_ms) for each in self.asked]

    def take(self, found: Any, as_of: AsOf) -> None:
        """What was ``found``, on this state."""
        if not self.answer.done():
            self.answer.set_result([verdict_of(judged, digest, as_of) for judged, digest in found])

    def fail(self, part: str, why: str) -> None:
        """They get no answer."""
        why = f"a dry run failed: {why}" if part == "record" else why
        if not self.answer.done():
            self.answer.set_result([NotJudgedError(part, why) for _ in self.asked])


@dataclass(eq=False)
class DryKey:
    """A key whose figures are asked for, and who waits for them."""

    asked: KeyAsked
    answer: asyncio.Future[KeyFigures]

    def request(self) -> KeyAsked:
        """The query as sent to the fork."""
        return self.asked

    def take(self, found: Any, as_of: AsOf) -> None:  # noqa: ARG002 - each figure has its own instant
        """What was ``found``."""
        if found.failed:
            self.fail("replica", found.failed)
        elif not self.answer.done():
            self.answer.set_result(found)

    def fail(self, part: str, why: str) -> None:  # noqa: ARG002 - there are no parts of it
        """It gets no answer."""
        if not self.answer.done():
            self.answer.set_exception(TellableError(f"the figures cannot be computed now: {why}"))


@dataclass(eq=False)
class _UnderWay:
    token: int
    dry: Sequence[Dry | DryKey]
    begun_s: float
    timer: asyncio.TimerHandle
    as_of: asyncio.Future[AsOf]


class DryRunQueue:
    """Those that wait, and those that are judged now. ``wake``: called where some may begin; ``learn``: of bases."""

    def __init__(self, wake: Callable[[], None], learn: Callable[[Sequence[Basis]], None]) -> None:
        self._wake, self._learn = wake, learn
        self._waiting: list[Dry | DryKey] = []
        self._under_way: _UnderWay | None = None
        self._tokens = count(1)
        self._not_before_s = 0.0
        self._again: asyncio.TimerHandle | None = None
        self.copies = 0

    def put(self, asked: Sequence[SubmittedRecord]) -> asyncio.Future[list[RecordVerdict | NotJudgedError]]:
        """The answer to ``asked``, once it is there."""
        answer: asyncio.Future[list[RecordVerdict | NotJudgedError]] = asyncio.get_running_loop().create_future()
        self._waiting.append(Dry(asked, answer))
        self._wake()
        return answer

    def put_key(self, asked: KeyAsked, check: Callable[[], None]) -> asyncio.Future[KeyFigures]:
        """The figures of a key, once they are there. Raises RetryableError if they do not come.

        ``check`` raises NotJudgedError where no replica may be asked.
        """
        try:
            check()
        except NotJudgedError as error:
            raise TellableError(f"the figures cannot be computed now: {error.why}") from None
        answer: asyncio.Future[KeyFigures] = asyncio.get_running_loop().create_future()
        self._waiting.append(DryKey(asked, answer))
        self._wake()
        return answer

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> list[Dry | DryKey]:
        """Those that are to begin now; who does not wait any more is left out."""
        self._waiting = [each for each in self._waiting if not each.answer.done()]
        if self._under_way is not None or not self._waiting:
            return []
        if self._left_s() > 0:  # also where a timer rang a little early, as those of some event loops do
            self._look_again()
            return []
        batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        return batch

    def begin(self, dry: Sequence[Dry | DryKey]) -> int:
        """They are judged now; the token by which the copy returns its result."""
        loop, token = asyncio.get_running_loop(), next(self._tokens)
        timer = loop.call_later(WITHIN_S, self._end, token, "a dry run took too long")
        self._under_way = _UnderWay(token, dry, loop.time(), timer, loop.create_future())
        self.copies += 1
        return token

    def judged_on(self, token: int, as_of: AsOf) -> None:
        """Those under way by ``token`` are judged on this state."""
        mine = self._under_way
        if mine is not None and mine.token == token and not mine.as_of.done():
            mine.as_of.set_result(as_of)

    def lost(self, token: int) -> None:
        """Who was to make a copy for those under way by ``token`` is gone: another one does."""
        mine = self._under_way
        if mine is not None and mine.token == token:
            mine.timer.cancel()
            self._under_way, self._waiting = None, [*mine.dry, *self._waiting]

    async def receive(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A copy returns its result, or ends without."""
        why = "the process that judged it ended"
        try:
            reply: ForkReply = await asyncio.wait_for(received(reader), WITHIN_S)
            mine = self._under_way
            if mine is not None and mine.token == hello.token and not reply.error:
                self._learn(reply.known)
                as_of = await asyncio.wait_for(asyncio.shield(mine.as_of), WITHIN_S)
                for one, found in zip(mine.dry, reply.dry, strict=True):
                    one.take(found, as_of)
            why = reply.error or why
        except TimeoutError:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(hello.pid, signal.SIGKILL)
        except (EOFError, ConnectionError, OSError):
            pass
        finally:
            writer.close()
            self._end(hello.token, why)

    def fail(self, why: str) -> None:
        """Nobody judges them."""
        for each in self._waiting:
            each.fail("replica", why)
        self._waiting = []

    def close(self) -> None:
        """Running ones fail as well."""
        if self._under_way is not None:
            self._end(self._under_way.token, "the API ends")
        self.fail("the API ends")

    def _end(self, token: int, why: str) -> None:
        """What was under way by this token is over; calls without an answer fail with ``why``."""
        mine = self._under_way
        if mine is None or mine.token != token:
            return
        mine.timer.cancel()
        for each in mine.dry:
            each.fail("record", why)
        loop = asyncio.get_running_loop()
        took_s = loop.time() - mine.begun_s
        self._under_way, self._not_before_s = None, loop.time() + took_s * (1 / SHARE - 1)
        self._look_again()

    def _look_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = asyncio.get_running_loop().call_later(max(0.0, self._left_s()) + EARLY_S, self._wake)

    def _left_s(self) -> float:
        return self._not_before_s - asyncio.get_running_loop().time()


def laid_of(dry: Sequence[Dry | DryKey]) -> list[list[Laid] | KeyAsked]:
    """What each asks, as sent to the fork."""
    return [one.request() for one in dry]
