"""Follows what batches give, as a pipeline writes it into its checkpoint."""

from __future__ import annotations

import asyncio
import os
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from crossline.basics.errors import StateError, UsageError
from crossline.basics.streams.api_record import LogPosition
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.io.feed.files import SUFFIX, FeedBatch, batch_path, batches_in, read_batch, read_head
from crossline.logs import get_logger

POLL_S = 0.004
LOOK_EACH = 250  # polls between two looks at the whole folder
KEPT_BATCHES, KEPT_BYTES = 64, 64 << 20  # in memory, so that many who follow read each file once
ASIDE_BYTES = 1 << 20  # a file from this size on is read in a thread

Kind = Literal["decision", "revision", "alert", "correction"]
_EVENT_ID = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})")
_REVISION, _CORRECTION = b'"kind":"revision"', b'"kind":"correction"'

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """Which event: of which batch, and its number among the events of that batch, from 0 on."""

    batch: int
    number: int

    def __str__(self) -> str:
        return f"{self.batch}-{self.number}"

    @classmethod
    def of(cls, text: str) -> EventId:
        """Inverse of ``str``. Raises UsageError for any other text."""
        found = _EVENT_ID.fullmatch(text)
        if found is None:
            raise UsageError(f"event id: found {text[:64]!r}, expected BATCH-NUMBER, such as 812-3")
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """A decision, a revision, an alert or a correction; ``raw``: its JSON.

    ``missed``: how many batches right before it cannot be read any more; their events are missing. ``planned_ms``: when
    its batch was planned, which distinguishes it from one of the same number in another checkpoint.
    """

    id: EventId
    kind: Kind
    raw: bytes
    missed: int = 0
    planned_ms: int = 0

    def value(self) -> dict[str, Any]:
        """Its content, as JSON values."""
        return read_alert(self.raw) if self.kind in {"alert", "correction"} else orjson.loads(self.raw)


class FeedReader:
    """Follows the feed in ``folder`` (``feed`` in the checkpoint), for as many as want to know; from one event loop.

    It may be begun before the pipeline, and goes on over the pipeline's restarts.

    Args:
        folder: Where the pipeline writes; need not be there yet.
        poll_s: Seconds between two looks at whether the next batch is there: about what an event is late by.

    Example:
        .. code-block:: python

            reader = FeedReader(checkpoint / "feed")
            async for batch in reader.follow(after=reader.last()):
                print(batch.number, batch.head["counts"])
    """

    def __init__(self, folder: str | Path, poll_s: float = POLL_S) -> None:
        self.folder = Path(folder)
        self._poll_s = poll_s
        self._last = -1
        self._anew = 0  # how many times the numbers began again
        self._news = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._kept: OrderedDict[int, tuple[FeedBatch, int]] = OrderedDict()
        self._kept_bytes = 0

    def last(self) -> int:
        """The newest batch that is known; -1 where there is none."""
        self._watch()
        return self._last

    async def newest(self) -> FeedBatch | None:
        """The newest batch that is known and can be read."""
        with suppress(FileNotFoundError, StateError):
            return await self.batch(self.last())
        return None

    async def follow(self, after: int = -1) -> AsyncIterator[FeedBatch]:
        """The batches behind number ``after``, in order, and then each as it comes, until the reader is closed.

        Where batches are not there any more the next one has the number of those ``missed``; where the checkpoint was
        begun anew, the first of the new ones is ``anew``. A file that is damaged is logged, and counts as missed.
        """
        self._watch()
        at, missed, times, anew = max(after, -1), 0, self._anew, False
        while True:
            news = self._news
            if at > self._last:
                self._look()
            if times != self._anew or at > self._last >= 0:  # the numbers began again
                at, missed, times, anew = -1, 0, self._anew, True
            if at >= self._last:
                if self._watching is None or self._watching.done():
                    return
                await news.wait()
                continue
            number, found = await self._next(at)
            if times == self._anew:
                missed += number - at - (found is not None)
                at = number
                if found is not None:
                    yield replace(found, missed=missed, anew=anew)
                    missed, anew = 0, False

    async def events(self, after: EventId | None = None) -> AsyncIterator[FeedEvent]:
        """The events behind ``after`` (None: from now on), in order: of each batch its decisions, then its alerts.

        A batch that is run again gives its events the same numbers.
        """
        begin = EventId(self.last(), 1 << 62) if after is None else after
        missed = 0
        async for batch in self.follow(after=begin.batch - 1):
            missed += batch.missed
            first = begin.number + 1 if batch.number == begin.batch and not batch.anew else 0
            for event in events_of(batch):
                if event.id.number >= first:
                    yield replace(event, missed=missed)
                    missed = 0

    async def batch(self, number: int) -> FeedBatch:
        """A batch by its number. Raises FileNotFoundError if it is not there, StateError where it is damaged."""
        kept = self._kept.get(number)
        if kept is not None:
            return kept[0]
        size = batch_path(self.folder, number).stat().st_size
        if size < ASIDE_BYTES:
            found = read_batch(self.folder, number)
        else:
            found = await asyncio.to_thread(read_batch, self.folder, number)
        self._keep(number, found, size)
        return found

    async def batch_of(self, stream: str, place: LogPosition) -> FeedBatch | None:
        """The first batch that is there and covers ``place``; None if none does yet."""
        for kept, _ in reversed(self._kept.values()):
            if kept.has(stream, place):
                return kept
        numbers = batches_in(self.folder)
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            try:
                covers = self._head(numbers[middle]).covers(stream, place)
            except (FileNotFoundError, StateError):  # it went meanwhile, and so did all before it; or it is damaged
                covers = False
            low, high = (low, middle) if covers else (middle + 1, high)
        with suppress(FileNotFoundError, StateError):
            return await self.batch(numbers[low]) if low < len(numbers) else None
        return None

    async def close(self) -> None:
        """Look no more; who follows comes to the end of what is known."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        self._news.set()

    def _head(self, number: int) -> FeedBatch:
        kept = self._kept.get(number)
        return kept[0] if kept is not None else read_head(self.folder, number)

    async def _next(self, at: int) -> tuple[int, FeedBatch | None]:
        """The first batch behind ``at`` that is there; None if it cannot be read."""
        number = at + 1
        try:
            try:
                return number, await self.batch(number)
            except FileNotFoundError:
                number = min((each for each in batches_in(self.folder) if each > at), default=self._last)
                return number, await self.batch(number)
        except FileNotFoundError:  # gone since
            return number, None
        except StateError as error:
            log.error("the output of a batch cannot be read", error=str(error))  # noqa: TRY400 - its text has the reason
            return number, None

    def _keep(self, number: int, batch: FeedBatch, size: int) -> None:
        self._kept[number] = (batch, size)
        self._kept_bytes += size
        while len(self._kept) > 1 and (len(self._kept) > KEPT_BATCHES or self._kept_bytes > KEPT_BYTES):
            self._kept_bytes -= self._kept.popitem(last=False)[1][1]

    def _watch(self) -> None:
        if self._watching is None:
            self._look()
            self._watching = asyncio.ensure_future(self._watched())

    async def _watched(self) -> None:
        polls, reported = 0, ""
        while True:
            await asyncio.sleep(self._poll_s)
            polls += 1
            try:
                self._looked(polls)
            except Exception as error:  # after any error, later batches are read
                why = repr(error)
                if why != reported:
                    log.exception("the feed cannot be read", folder=str(self.folder))
                reported = why
            else:
                reported = ""

    def _looked(self, polls: int) -> None:
        last = self._last
        while os.access(f"{self.folder}/{last + 1}{SUFFIX}", os.F_OK):  # asked often
            last += 1
        if last > self._last:
            self._come_to(last)
        elif polls % LOOK_EACH == 0:
            self._look()

    def _look(self) -> None:
        """Look at the whole folder: for gaps, and for a checkpoint that was begun anew."""
        last = max(batches_in(self.folder), default=-1)
        if last < self._last and not batch_path(self.folder, self._last).exists():
            self._anew += 1
            self._kept.clear()
            self._kept_bytes = 0
            self._come_to(last)
        elif last > self._last:
            self._come_to(last)

    def _come_to(self, last: int) -> None:
        self._last = last
        news, self._news = self._news, asyncio.Event()
        news.set()


def events_of(batch: FeedBatch) -> Iterator[FeedEvent]:
    """The events of a batch, with the numbers that they have there."""
    number, planned_ms = 0, batch.planned_ms
    for name, more, (plain, other) in _EVENTS:
        for raw in batch.section(name):
            yield FeedEvent(EventId(batch.number, number), other if more in raw else plain, raw, planned_ms=planned_ms)
            number += 1


_EVENTS: tuple[tuple[str, bytes, tuple[Kind, Kind]], ...] = (
    ("decisions", _REVISION, ("decision", "revision")),
    ("alerts", _CORRECTION, ("alert", "correction")),
)
