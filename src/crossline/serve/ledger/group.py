"""A ledger for many requests at once: what they ask within one turn of its thread is one transaction, one sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from crossline.basics.errors import CrosslineError, RetryableError, StateError
from crossline.logs import get_logger
from crossline.serve.decisions.values import SubmittedRecord
from crossline.serve.ledger.base import Claimed, DecisionLedger, StoredAnswer
from crossline.serve.ledger.receipts import ReceiptEntry

T = TypeVar("T")

log = get_logger(__name__)

# How often another process is looked after that has an id under way.
LOOK_S = 0.005
# The most of one transaction: what comes first does not wait for a thousand others.
GROUP_MAX = 256


@dataclass(slots=True)
class _Turn:
    claims: list[tuple[SubmittedRecord, asyncio.Future[Claimed]]] = field(default_factory=list)
    answers: list[tuple[ReceiptEntry, asyncio.Future[StoredAnswer | None]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.claims) + len(self.answers)

    def alone(self) -> list[_Turn]:
        """Each of it as a turn of its own, in their order."""
        return [*(_Turn(answers=[each]) for each in self.answers), *(_Turn(claims=[each]) for each in self.claims)]


class LedgerGroup:
    """A ledger behind asyncio, in one event loop.

    Example:
        >>> async def ask(ledger: LedgerGroup, asked: Asked) -> bytes | None:
        ...     claimed = await ledger.claim(asked)
        ...     if claimed.outcome == "pending":
        ...         claimed = await ledger.settled(asked, timeout_s=0.05)
        ...     return claimed.body
    """

    def __init__(self, ledger: DecisionLedger, look_s: float = LOOK_S) -> None:
        self._ledger = ledger
        self._look_s = look_s
        self._thread = ThreadPoolExecutor(1, "ledger")
        self._next = _Turn()
        self._turning: asyncio.Task[None] | None = None
        self._waiting: dict[tuple[str, str], asyncio.Event] = {}
        self._going: set[asyncio.Task[None]] = set()
        self._closed = False

    async def claim(self, asked: SubmittedRecord) -> Claimed:
        """Claim an id. A claim whose request is cancelled meanwhile is given up.

        Raises RetryableError if the ledger takes nothing now.
        """
        future: asyncio.Future[Claimed] = self._future()
        self._next.claims.append((asked, future))
        self._turn()
        try:
            return await future
        except asyncio.CancelledError:
            # Where the claim was made in the very moment in which the request went.
            if future.done() and not future.cancelled() and future.exception() is None:
                claimed = future.result()
                if claimed.outcome == "fresh":
                    going = self._loop().create_task(self._give_up([(asked, claimed.again)]))
                    self._going.add(going)
                    going.add_done_callback(self._going.discard)
            raise

    async def answer(self, entry: ReceiptEntry) -> StoredAnswer | None:
        """Keep an answer; what holds is what the client must be sent. None: a conflict (see ``DecisionLedger.answer``).

        It is kept though the request is cancelled meanwhile. Raises RetryableError if the ledger takes nothing now.
        """
        future: asyncio.Future[StoredAnswer | None] = self._future()
        self._next.answers.append((entry, future))
        self._turn()
        return await future

    async def settled(self, asked: SubmittedRecord, timeout_s: float) -> Claimed:
        """What became of an id that another request has under way: ``pending`` still, where time is up.

        ``fresh``: its owner has died or given it up; it is the caller's now.
        """
        key = (asked.stream, asked.record_id)
        until_s = self._loop().time() + timeout_s
        try:
            while True:
                event = self._waiting.setdefault(key, asyncio.Event())
                claimed = await self.claim(asked)
                left_s = until_s - self._loop().time()
                if claimed.outcome != "pending" or left_s <= 0:
                    return claimed
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), min(self._look_s, left_s))
        finally:
            self._waiting.pop(key, None)  # others that wait for it look again

    async def call(self, ask: Callable[[DecisionLedger], T]) -> T:
        """Whatever else is asked of the ledger, in its thread: ``call(lambda ledger: ledger.counts())``."""
        self._check()
        return await self._loop().run_in_executor(self._thread, partial(ask, self._ledger))

    async def close(self) -> None:
        """Wait for what is under way, then let go of the ledger; safe to call twice."""
        self._closed = True
        under_way = {*self._going, *([self._turning] if self._turning is not None else [])}
        if under_way:
            await asyncio.wait(under_way)
        await asyncio.to_thread(self._thread.shutdown)
        self._ledger.close()

    def _turn(self) -> None:
        if self._turning is None:
            self._turning = self._loop().create_task(self._turns())

    async def _turns(self) -> None:
        try:
            while len(self._next):
                await self._one(self._take())
        finally:
            self._turning = None

    def _take(self) -> _Turn:
        """The next group, answers first: those who wait for them have waited longest."""
        whole = self._next
        answers = whole.answers[:GROUP_MAX]
        claims = whole.claims[: GROUP_MAX - len(answers)]
        self._next = _Turn(whole.claims[len(claims) :], whole.answers[len(answers) :])
        return _Turn(claims, answers)

    async def _one(self, turn: _Turn) -> None:
        asked, entries = [each for each, _ in turn.claims], [each for each, _ in turn.answers]
        try:
            found = self._loop().run_in_executor(self._thread, self._ledger.exchange, asked, entries)
            claimed, kept = await found
        except Exception as error:  # noqa: BLE001 - each of them gets it
            if len(turn) > 1 and not isinstance(error, RetryableError):  # it is about one of them
                for one in turn.alone():
                    await self._one(one)
                return
            futures: list[asyncio.Future[Any]] = [each for _, each in turn.claims]
            futures += [each for _, each in turn.answers]
            for future in futures:
                if not future.done():
                    future.set_exception(error)
            return
        for (entry, answered), mine in zip(turn.answers, kept, strict=True):
            if not answered.done():
                answered.set_result(mine)
            self._wake(entry.asked)
        given_up = []
        for (each, future_claim), outcome in zip(turn.claims, claimed, strict=True):
            if not future_claim.done():
                future_claim.set_result(outcome)
            elif outcome.outcome == "fresh":
                given_up.append((each, outcome.again))
        if given_up:
            await self._give_up(given_up)

    async def _give_up(self, claims: list[tuple[SubmittedRecord, bool]]) -> None:
        """Claims of requests that have gone. One that was taken over may have its record in the stream."""
        for again in (False, True):
            mine = [asked for asked, repeated in claims if repeated is again]
            release = partial(self._ledger.release, mine, forget=not again)
            try:
                await self._loop().run_in_executor(self._thread, release)
            except CrosslineError as error:
                # They are taken over once they are old enough.
                log.warning(
                    "claims of requests that have gone could not be given up", claims=len(mine), error=str(error)
                )
        for asked, _ in claims:
            self._wake(asked)

    def _wake(self, asked: SubmittedRecord) -> None:
        event = self._waiting.pop((asked.stream, asked.record_id), None)
        if event is not None:
            event.set()

    def _future(self) -> asyncio.Future[Any]:
        self._check()
        return self._loop().create_future()

    def _check(self) -> None:
        if self._closed:
            raise StateError("the ledger is closed")

    @staticmethod
    def _loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()
