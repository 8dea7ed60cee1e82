"""Follows what batches give, makes cases of it, and brings back cases whose snooze has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from crossline.basics.errors import RetryableError, StateError
from crossline.io.feed.files import FeedBatch, read_head
from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.serve.cases.intake.batches import CaseIntake, IntakePosition, Step, planned_of, steps_of
from crossline.serve.cases.intake.catch_up import Missed
from crossline.serve.cases.service import CaseService
from crossline.serve.feed.reader import FeedReader

AT_ONCE = 250  # lines of a batch in one transaction: another writer waits no longer than that takes
MARK_EACH = 256  # batches without any line between two marks
PAUSE_S = 0.5

log = get_logger(__name__)


class CaseFollower:
    """Follows the feed for as long as the context is open, from where it came to before.

    Args:
        reader: Follows what batches give.
        intake: Makes cases of it.
        desk: Of which snoozes end.
        missed: Brings what the feed has no more out of the store; None: there is none.
    """

    def __init__(self, reader: FeedReader, intake: CaseIntake, desk: CaseService, missed: Missed | None = None) -> None:
        self._reader = reader
        self._intake = intake
        self._desk = desk
        self._missed = missed
        self._tasks: list[asyncio.Task[None]] = []
        self._snoozed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(_on_and_on(each)) for each in (self._follow, self._wake)]
        return self

    def changed(self) -> None:
        """A case was changed: its snooze may be the next that ends. From the event loop."""
        self._snoozed.set()

    async def _follow(self) -> None:
        mark = await asyncio.to_thread(self._intake.mark)
        looked = mark.batch >= 0
        if looked and not await asyncio.to_thread(_same, self._reader, mark):
            mark = IntakePosition()  # a new checkpoint was begun meanwhile
        empty, at, followed = 0, mark.batch, looked
        async for batch in self._reader.follow(after=mark.batch - 1):
            at = -1 if batch.anew else at
            if batch.missed and batch.number > at + 1 and followed:
                await self._catch_up(at + 1, batch.number - 1)
            at, followed = batch.number, True
            steps, done = steps_of(batch), mark.step if batch.number == mark.batch and not batch.anew else 0
            empty = 0 if steps else empty + 1
            if not steps and empty % MARK_EACH == 0:
                await self._take([], IntakePosition(batch.number, 0, planned_of(batch)))
            await self._batch(batch, steps, done)

    async def _catch_up(self, first: int, last: int) -> None:
        """Batches that the feed has no more: the store has the alerts of those that no API followed.

        The mark stays until all is there, so an interrupted intake begins again; no alert is taken in twice.
        """
        while True:
            try:
                took = None
                if self._missed is not None:
                    took = await asyncio.to_thread(self._missed.take, self._intake, first, last)
            except RetryableError as error:
                log.warning("alerts of the store cannot be put into cases yet", error=str(error))
                await asyncio.sleep(PAUSE_S)
                continue
            if took is None:
                log.warning("batches are removed already, and their alerts open no case", first=first, last=last)
            else:
                log.info("cases caught up by the store", first=first, last=last, alerts_and_decisions=took)
            return

    async def _batch(self, batch: FeedBatch, steps: list[Step], done: int) -> None:
        for at in range(done, len(steps), AT_ONCE):
            part = steps[at : at + AT_ONCE]
            await self._take(part, IntakePosition(batch.number, at + len(part), planned_of(batch)))

    async def _take(self, steps: list[Step], mark: IntakePosition) -> None:
        while True:
            try:
                await asyncio.to_thread(self._intake.take, steps, mark)
            except RetryableError as error:
                log.warning("alerts cannot be put into cases yet", error=str(error))
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def _wake(self) -> None:
        """Wait until the next snooze ends, or there is another one that ends before."""
        while True:
            self._snoozed.clear()
            await asyncio.to_thread(self._desk.wake)
            due_ms = await asyncio.to_thread(self._desk.due_ms)
            wait_s = None if due_ms is None else max(0.0, (due_ms - wall_clock_ms()) / 1_000)
            try:
                async with asyncio.timeout(wait_s):
                    await self._snoozed.wait()
            except TimeoutError:
                continue

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._intake.close)


def _same(reader: FeedReader, mark: IntakePosition) -> bool:
    """Whether batch ``mark.batch`` is the one that was taken in; one that is gone counts as the same."""
    try:
        return planned_of(read_head(reader.folder, mark.batch)) == mark.planned
    except (FileNotFoundError, StateError):
        return True


async def _on_and_on(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """``work``, which is begun again where it failed: what comes after gets into cases all the same."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("cases cannot follow what batches give")
        else:
            return
        await asyncio.sleep(PAUSE_S)
