"""What happens, out of both places that know it: what batches gave, and answers that the stream decided otherwise."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import orjson

from crossline.serve.cases.changes import CaseChanges
from crossline.serve.feed.reader import Event as Given
from crossline.serve.feed.reader import EventId, FeedReader
from crossline.serve.http.events.source import Event, EventsGoneError
from crossline.serve.revisions.told import RevisedGoneError, RevisedLog

_N = "(?:0|[1-9][0-9]{0,17})"
_ID = re.compile(rf"({_N}-{_N})?(?:\.({_N}))?(?:\.({_N}))?", re.ASCII)
_FORM = "BATCH-NUMBER.REVISION.CASE, such as 812-3.17.905, as an event had it"
_BEYOND = 10**18 - 1  # of a batch there are never so many events
_BEFORE_ALL = EventId(-1, 0)


@dataclass(frozen=True, slots=True)
class At:
    """How far a client has come: the last event of batches, the last revision, the last change of a case.

    Its text is the id of an event: ``812-3.17.905``; ``.17.905`` before there was any batch.
    """

    batch: EventId
    revised: int
    case: int | None = None

    def __str__(self) -> str:
        case = "" if self.case is None else f".{self.case}"
        return f"{'' if self.batch == _BEFORE_ALL else self.batch}.{self.revised}{case}"

    @classmethod
    def of(cls, text: str, newest: int, newest_case: int | None = None) -> At:
        """Inverse of ``str``; without the other parts (``812-3``) it is as of the ``newest`` revision and change.

        Raises EventsGoneError for any other text.
        """
        found = _ID.fullmatch(text)
        if found is None or not text:
            raise EventsGoneError(f"found the id {text[:64]!r}, expected {_FORM}")
        batch = _BEFORE_ALL if found[1] is None else EventId.of(found[1])
        revised = newest if found[2] is None else int(found[2])
        return cls(batch, revised, newest_case if found[3] is None else int(found[3]))


class AllEvents:
    """What batches gave, revisions of what this API answered, changes of cases; each event's id goes on in all."""

    def __init__(self, reader: FeedReader, revised: RevisedLog, cases: CaseChanges | None = None) -> None:
        self._reader = reader
        self._revised = revised
        self._cases = cases

    async def follow(self, after: str | None) -> AsyncIterator[Event]:
        """See ``EventSource``."""
        newest = await asyncio.to_thread(self._revised.last)
        newest_case = None if self._cases is None else await asyncio.to_thread(self._cases.last)
        at = self._now(newest, newest_case) if after is None else At.of(after, newest, newest_case)
        if 0 <= (last := self._reader.last()) < at.batch.batch - 1 and after is not None:  # else all are told again
            raise EventsGoneError(f"batch {at.batch.batch} of {after} has not come here: the newest is {last}")
        waiting: asyncio.Queue[Any] = asyncio.Queue(1)
        sources: list[Any] = [self._given(at.batch, after), self._revised.follow(at.revised)]
        if self._cases is not None:
            sources.append(_named("case", self._cases.follow(at.case or 0)))
        tasks = [asyncio.create_task(_into(waiting, each)) for each in sources]
        try:
            while (each := await waiting.get()) is not None:  # the reader is closed: the server ends
                if isinstance(each, Exception):
                    raise each
                if isinstance(each, Given):
                    at = replace(at, batch=each.id)
                    yield _of_batch(each, at)
                elif each[0] == "case":
                    at = replace(at, case=each[1])
                    yield _of_case(each[2], at)
                else:
                    at = replace(at, revised=each[0])
                    yield Event(str(at), "revision", each[1])
        except RevisedGoneError as error:
            raise EventsGoneError(str(error)) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _now(self, newest: int, newest_case: int | None) -> At:
        last = self._reader.last()
        return At(_BEFORE_ALL if last < 0 else EventId(last, _BEYOND), newest, newest_case)

    async def _given(self, begin: EventId, after: str | None) -> AsyncIterator[Given]:
        first = after is not None
        async for each in self._reader.events(begin):
            if first and each.missed:
                raise EventsGoneError(f"{each.missed} batches behind {after} are not kept any more")
            first = False
            yield each


async def _into(waiting: asyncio.Queue[Any], source: Any) -> None:
    """Put what ``source`` gives there; at its end None, and what it raises."""
    try:
        async with aclosing(source) as events:
            async for each in events:
                await waiting.put(each)
    except Exception as error:  # noqa: BLE001 - it is raised where it is taken
        await waiting.put(error)
    else:
        await waiting.put(None)


async def _named(name: str, source: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[tuple[str, int, Any]]:
    async for number, said in source:
        yield name, number, said


def _of_case(case: dict[str, Any], at: At) -> Event:
    said = {each["field"]: each["value"] for each in case["entities"]}
    return Event(str(at), "case", orjson.dumps(case), said)


def _of_batch(each: Given, at: At) -> Event:
    key = each.value().get("key") if each.kind in {"alert", "correction"} else None
    said = {name: str(value) for name, value in key.items()} if isinstance(key, dict) else {}
    return Event(str(at), each.kind, each.raw, said)
