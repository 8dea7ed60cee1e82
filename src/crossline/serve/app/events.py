"""What happens, out of both places that know it: what batches gave, and answers that the stream decided otherwise."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from crossline.basics.errors import StateError
from crossline.serve.cases.changes import CaseChanges
from crossline.serve.feed.reader import EventId, FeedReader
from crossline.serve.feed.reader import FeedEvent as Given
from crossline.serve.http.events.source import EventsGoneError, LiveEvent
from crossline.serve.revisions.revision_log import NumberedLog, RevisedGoneError, RevisedLog

_N = "(?:0|[1-9][0-9]{0,17})"
_ID = re.compile(rf"({_N}-{_N})?\.({_N})(?:\.({_N})(?:\.({_N}))?)?~([0-9a-f]{{8}})(?:-([0-9a-f]{{1,16}}))?", re.ASCII)
_FORM = "BATCH-NUMBER.REVISION.CASE.PREDICTION~LIFE, such as 812-3.17.905.2~5f0c7a9e-19b7659c800, as an event had it"
_BEYOND = 10**18 - 1  # of a batch there are never so many events
_BEFORE_ALL = EventId(-1, 0)


@dataclass(frozen=True, slots=True)
class At:
    """How far a client has come: the last event of batches, revision, change of a case, event of a prediction.

    Its text is the id of an event: ``812-3.17.905.2~5f0c7a9e-19b7659c800``; ``.17.905.2~5f0c7a9e`` before there was any
    batch. ``life``: of these numbers: another folder of an API counts anew. ``planned_ms``: of the batch, 0: unknown.
    """

    batch: EventId
    revised: int
    case: int | None
    life: str
    planned_ms: int = 0
    predicted: int | None = None

    def __str__(self) -> str:
        batch = "" if self.batch == _BEFORE_ALL else str(self.batch)
        case = "" if self.case is None and self.predicted is None else f".{self.case or 0}"
        case += "" if self.predicted is None else f".{self.predicted}"
        return f"{batch}.{self.revised}{case}~{self.life}{f'-{self.planned_ms:x}' if self.planned_ms else ''}"

    @classmethod
    def of(cls, text: str) -> At:
        """Inverse of ``str``. Raises EventsGoneError for any other text."""
        found = _ID.fullmatch(text)
        if found is None:
            raise EventsGoneError(f"found the id {text[:64]!r}, expected {_FORM}")
        batch = _BEFORE_ALL if found[1] is None else EventId.of(found[1])
        case, predicted = (None if each is None else int(each) for each in (found[3], found[4]))
        return cls(batch, int(found[2]), case, found[5], 0 if found[6] is None else int(found[6], 16), predicted)


class AllEvents:
    """What batches gave, revisions of what this API answered, changes of cases, predictions; an id goes on in all."""

    def __init__(
        self,
        reader: FeedReader,
        revised: RevisedLog,
        cases: CaseChanges | None = None,
        predicted: NumberedLog | None = None,
    ) -> None:
        self._reader = reader
        self._revised = revised
        self._cases = cases
        self._predicted = predicted
        self._life = ""

    async def follow(self, after: str | None) -> AsyncIterator[LiveEvent]:
        """See ``EventSource``."""
        newest = await self._newest()
        at = newest if after is None else await self._checked(At.of(after), after, newest)
        waiting: asyncio.Queue[Any] = asyncio.Queue(1)
        sources: list[Any] = [self._given(at, after), self._revised.follow(at.revised)]
        if self._cases is not None:
            sources.append(_named("case", self._cases.follow(at.case or 0)))
        if self._predicted is not None:
            sources.append(_named("prediction", self._predicted.follow(at.predicted or 0)))
        tasks = [asyncio.create_task(_into(waiting, each)) for each in sources]
        try:
            while (each := await waiting.get()) is not None:  # the reader is closed: the server ends
                if isinstance(each, Exception):
                    raise each
                if isinstance(each, Given):
                    at = replace(at, batch=each.id, planned_ms=each.planned_ms)
                    yield _of_batch(each, at)
                elif each[0] == "case":
                    at = replace(at, case=each[1])
                    yield _of_case(each[2], at)
                elif each[0] == "prediction":
                    at = replace(at, predicted=each[1])
                    yield LiveEvent(str(at), "prediction", each[2], {"rule_id": str(orjson.loads(each[2])["rule_id"])})
                else:
                    at = replace(at, revised=each[0])
                    yield LiveEvent(str(at), "revision", each[1])
        except RevisedGoneError as error:
            raise EventsGoneError(str(error)) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _newest(self) -> At:
        """Where a client that connects now begins."""
        revised = await asyncio.to_thread(self._revised.last)
        case = None if self._cases is None else await asyncio.to_thread(self._cases.last)
        predicted = None if self._predicted is None else await asyncio.to_thread(self._predicted.last)
        life = self._life or await asyncio.to_thread(self._made_life)
        last, batch = self._reader.last(), await self._reader.newest()
        if last < 0:
            return At(_BEFORE_ALL, revised, case, life, 0, predicted)
        planned_ms = 0 if batch is None or batch.number != last else batch.planned_ms
        return At(EventId(last, _BEYOND), revised, case, life, planned_ms, predicted)

    def _made_life(self) -> str:
        """A name that no other files have by which revisions, changes of cases and predictions are numbered."""
        parts = [self._revised.life, "" if self._cases is None else str(self._cases.life())]
        if self._predicted is not None:
            parts.append(self._predicted.life)
        self._life = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=4).hexdigest()
        return self._life

    async def _checked(self, at: At, after: str, newest: At) -> At:
        """``at``, where it can be gone on from. Raises EventsGoneError if it is of another life, or not come to."""
        if at.life != newest.life:
            raise EventsGoneError(f"{after} is of another API, or of one whose folder is gone: its numbers are others")
        ahead = (at.case or 0) > (newest.case or 0) or (at.predicted or 0) > (newest.predicted or 0)
        if ahead or at.revised > newest.revised:
            raise EventsGoneError(f"{after} has not come here: revisions and changes of cases are behind it")
        last = newest.batch.batch
        if 0 <= last < at.batch.batch - 1:  # else all are sent again
            raise EventsGoneError(f"batch {at.batch.batch} of {after} has not come here: the newest is {last}")
        if at.planned_ms:
            with suppress(FileNotFoundError, StateError):  # it is to come, or the next ones say how many are missed
                batch = await self._reader.batch(at.batch.batch)
                if batch.planned_ms != at.planned_ms:
                    raise EventsGoneError(f"batch {at.batch.batch} of {after} is of another checkpoint")
        case = newest.case if at.case is None else at.case
        return replace(at, case=case, predicted=newest.predicted if at.predicted is None else at.predicted)

    async def _given(self, begin: At, after: str | None) -> AsyncIterator[Given]:
        first = after is not None
        async for each in self._reader.events(begin.batch):
            if first and each.missed:
                raise EventsGoneError(f"{each.missed} batches behind {after} are not kept any more")
            if first and each.id.batch == begin.batch.batch and begin.planned_ms not in {0, each.planned_ms}:
                raise EventsGoneError(f"batch {each.id.batch} of {after} is of another checkpoint")
            first = False
            yield each


async def _into(waiting: asyncio.Queue[Any], source: Any) -> None:
    """Put what ``source`` gives there; at its end None, and what it raises."""
    try:
        async with aclosing(source) as events:
            async for each in events:
                await waiting.put(each)
    except Exception as error:  # noqa: BLE001 - it is raised where it is read
        await waiting.put(error)
    else:
        await waiting.put(None)


async def _named(name: str, source: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[tuple[str, int, Any]]:
    async for number, body in source:
        yield name, number, body


def _of_case(case: dict[str, Any], at: At) -> LiveEvent:
    body = {each["field"]: each["value"] for each in case["entities"]}
    return LiveEvent(str(at), "case", orjson.dumps(case), body)


def _of_batch(each: Given, at: At) -> LiveEvent:
    key = each.value().get("key") if each.kind in {"alert", "correction"} else None
    body = {name: str(value) for name, value in key.items()} if isinstance(key, dict) else {}
    return LiveEvent(str(at), each.kind, each.raw, body)
