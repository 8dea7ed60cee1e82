"""Compares answers with the decisions of batches, and reports revisions where these differ."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import orjson

from crossline.basics.errors import RetryableError, StateError
from crossline.basics.times import instant_text
from crossline.io.feed.files import FeedBatch
from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.serve.decisions.reconciliation import Expected, Reconciliation, Revised
from crossline.serve.decisions.values import LogPosition
from crossline.serve.feed.exact import first_decision
from crossline.serve.feed.reader import FeedReader
from crossline.serve.ledger.base import DecisionLedger, LedgerAnswer
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.recovery import ProgressFile
from crossline.serve.revisions.pusher import RevisionPusher
from crossline.serve.revisions.revision_log import FILE as REVISIONS
from crossline.serve.revisions.revision_log import RevisedLog
from crossline.serve.revisions.values import Revision
from crossline.serve.revisions.values import revision_of as made_of
from crossline.settings.process.serve import ServeSettings

PAUSE_S = 0.5
PUSHED = "revisions.db"
COPY_S, COPIES_MAX = 0.05, 1_000  # answers whose first record is to be looked for
BACK_AT_ONCE = 500  # answers that came after their batch, looked at together
AT_ONCE = 20  # revisions in one call of the ledger
LEFT_S, LEFT_AT_ONCE = 10.0, 100  # what killed APIs left to push: how often it is looked for
DAMAGED = (ValueError, KeyError, TypeError)  # of lines that are no JSON, or not what a batch gives
_REVISION = b'"kind":"revision"'
T = TypeVar("T")

log = get_logger(__name__)


class Reconciler:
    """Follows the feed behind batch ``after`` for as long as the context is open.

    ``differed`` is called with each answer that the stream decided otherwise, once the revision is stored; ``revised``
    has them for who listens to events.
    """

    def __init__(
        self,
        reader: FeedReader,
        settling: Reconciliation,
        ledger: LedgerGroup,
        settings: ServeSettings,
        path: Path,
        after: int,
        mark: ProgressFile,
        differed: Callable[[Sequence[Revised]], None] = lambda _: None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._reader = reader
        self.revised = RevisedLog(path / REVISIONS)
        self._settling = settling
        self._differed = differed
        self._ledger = ledger
        self._shared = settings.ledger is not None
        # Nothing is opened without an address to notify.
        self._pusher = (
            RevisionPusher(path / PUSHED, settings.revisions, clock_ms=clock_ms) if settings.revisions else None
        )
        self._followed = after
        self._mark = mark
        self._tasks: list[asyncio.Task[None]] = []
        self._covered: asyncio.Queue[tuple[str, LogPosition]] = asyncio.Queue()
        self._copies: asyncio.Queue[Expected] = asyncio.Queue()
        settling.on_copy = self._look_at
        settling.on_covered = lambda stream, place: self._covered.put_nowait((stream, place))

    async def __aenter__(self) -> Self:
        if self._pusher is not None:
            await asyncio.to_thread(self._pusher.open)
        works = (lambda: self._follow(self._followed), self._look_back, self._look_for_first, self._push_left)
        self._tasks = [asyncio.create_task(_on_and_on(work)) for work in works]
        return self

    async def _follow(self, after: int) -> None:
        async for batch in self._reader.follow(after=after):
            try:
                await self._keep(self._settling.batch(batch))
                await self._keep_own(batch)
            except DAMAGED:  # it will not be better when it is read again, and others come behind it
                log.exception("what a batch gave is damaged; answers are not held to it", batch=batch.number)
            self._followed = batch.number
            self._mark.note(batch.number)
            await asyncio.sleep(0)  # many that are there already hold up no request

    async def _look_back(self) -> None:
        """Answers that came after the batch of their record: a slow answer, or one by the fallback at its deadline."""
        while True:
            waiting = [await self._covered.get()]
            while not self._covered.empty() and len(waiting) < BACK_AT_ONCE:
                waiting.append(self._covered.get_nowait())
            mine: dict[int, FeedBatch] = {}  # what many have in common is looked at once
            for stream, place in waiting:
                batch = await self._reader.batch_of(stream, place)
                if batch is not None and batch.has(stream, place):
                    mine[batch.number] = batch
            for batch in mine.values():
                try:
                    await self._keep(self._settling.batch(batch))
                except Exception:
                    log.exception("answers could not be held to what a batch gave", batch=batch.number)
            for stream, place in waiting:
                self._settling.forget(stream, place)

    def _look_at(self, copy: Expected) -> None:
        if self._copies.qsize() < COPIES_MAX:
            self._copies.put_nowait(copy)
        else:
            log.warning("an answer about a copy is not compared: too many wait", id=copy.record_id)

    async def _look_for_first(self) -> None:
        """Answers about a record that came twice to its stream, since a process ended between: the first counts."""
        while True:
            known = await self._copies.get()
            decided = await first_decision(self._reader, known.stream, known.record_id)
            if decided is not None:
                await self._keep(self._settling.first(known, decided, self._followed))
            await asyncio.sleep(COPY_S)  # where many come late, requests come first

    async def _keep(self, revised: Sequence[Revised]) -> None:
        made = [one for each in revised if (one := pushed_of(each)) is not None]
        if made:
            await self._notify(made)
        for at in range(0, len(revised), AT_ONCE):  # claims of requests come in between
            part = revised[at : at + AT_ONCE]
            lines = [(each.decision_id, revision_of(each)) for each in part]
            await self._revise(lines, [pushed_of(each) for each in part])
        if made:
            self.revised.notify()
        self._differed(revised)

    async def _notify(self, made: Sequence[Revision]) -> None:
        """For who listens, before the ledger has them: what that has is not found again after a kill."""
        try:
            await _until_accepted(lambda: asyncio.to_thread(self.revised.put, made))
        except StateError as error:  # ledger and addresses get them all the same
            log.error("listeners do not get revisions", count=len(made), error=str(error))  # noqa: TRY400 - its text has the reason

    async def _keep_own(self, batch: FeedBatch) -> None:
        """What the stream itself revised, of decisions that were answered here."""
        for line in batch.section("decisions"):
            if _REVISION not in line:
                continue
            body = orjson.loads(line)
            # By its record: an answer by the fallback may be under another version of the policy, and so its id.
            which = (str(body["stream"]), str(body["record_id"]))
            answer = await _until_accepted(partial(self._ledger.call, partial(_answer, *which)))
            if answer is None:
                continue
            before = [each["decision"] for each in answer.revisions if each.get("revision", 0) < body["revision"]]
            made = made_of(orjson.loads(answer.body), body, before[-1] if before else None)
            await self._revise([(answer.decision_id, body)], [made])

    async def _revise(
        self, decisions: Sequence[tuple[str, Mapping[str, Any]]], made: Sequence[Revision | None]
    ) -> None:
        """Keep revisions in the ledger, and push what is ``made`` of them.

        What the ledger has is not found again after a kill, so it is pushed before; what was pushed is known by its id.
        Of APIs that share a ledger one pushes it: the ledger chooses one, and keeps it until it is pushed.
        """
        if not self._shared:
            await self._push([each for each in made if each is not None])
        new: set[int] = set()
        kept = made if self._shared and self._pusher is not None else [None] * len(made)
        await _until_accepted(partial(self._ledger.call, partial(_revise, decisions, kept, new)))
        await self._push_kept([each for number, each in enumerate(kept) if each is not None and number in new])

    async def _push_kept(self, revisions: Sequence[Revision]) -> None:
        """Push what a shared ledger has until then."""
        if revisions:
            await self._push(revisions)
            names = [each.revision_id for each in revisions]
            await _until_accepted(partial(self._ledger.call, lambda ledger: ledger.mark_reported(names)))

    async def _push_left(self) -> None:
        """Push what APIs of before kept in a shared ledger and did not come to push: they were killed between."""
        while self._shared and self._pusher is not None:
            left = await _until_accepted(partial(self._ledger.call, lambda ledger: ledger.unreported(LEFT_AT_ONCE)))
            await self._push_kept(left)
            if len(left) < LEFT_AT_ONCE:
                await asyncio.sleep(LEFT_S)

    async def _push(self, revisions: Sequence[Revision]) -> None:
        """Queue revisions for delivery; a full queue, or a full disk, holds up what comes after."""
        pusher = self._pusher
        if pusher is not None and revisions:
            await _until_accepted(lambda: asyncio.to_thread(pusher.put, revisions))

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pusher is not None:
            await asyncio.to_thread(self._pusher.close)


def _revise(
    part: Sequence[tuple[str, Mapping[str, Any]]],
    made: Sequence[Revision | None],
    new: set[int],
    ledger: DecisionLedger,
) -> None:
    """Keep them; the numbers of those that were new go into ``new``, over calls that fail half way."""
    for number, (each, revision) in enumerate(zip(part, made, strict=True)):
        if ledger.revise(*each, revision):
            new.add(number)


def _answer(stream: str, record_id: str, ledger: DecisionLedger) -> LedgerAnswer | None:
    return ledger.by_record(stream, record_id)


async def _until_accepted(ask: Callable[[], Awaitable[T]]) -> T:
    """The result of ``ask``, repeated until it is accepted."""
    while True:
        try:
            return await ask()
        except RetryableError as error:
            log.warning("revisions cannot be stored or delivered yet", error=str(error))
        await asyncio.sleep(PAUSE_S)


async def _on_and_on(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """``work``, which is begun again where it failed: what comes after is compared all the same."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("answers could not be held to what a batch gave")
        else:
            return
        await asyncio.sleep(PAUSE_S)


def pushed_of(revised: Revised) -> Revision | None:
    """The revision as it is delivered to payment systems."""
    answer = {"decision_id": revised.decision_id, "stream": revised.stream, "record_id": revised.record_id}
    return made_of({**answer, "decision": revised.was, "answered": revised.answered}, revised.decision)


def revision_of(revised: Revised) -> dict[str, Any]:
    """The stream's decision as a revision of what was answered."""
    body = {**revised.decision, "kind": "revision", "was": revised.was, "answered": revised.answered}
    return {**body, "batch": revised.batch, "revised_at": instant_text(wall_clock_ms())}
