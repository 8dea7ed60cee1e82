"""Requests for decisions: each checked, claimed, put into its stream, judged meanwhile, answered in time and kept.

No request waits beyond its deadline, and none is answered before its record is kept: in its stream, or, where that
does not take it in time, in the outbox, from which it gets there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import Any, Literal

from crossline.basics.errors import RetryableError
from crossline.basics.times import parse_instant_ms
from crossline.logs import get_logger
from crossline.serve.decisions.answers import AnswerBuilder
from crossline.serve.decisions.batching import Batched, Gathered
from crossline.serve.decisions.dry_runs import DryRunService
from crossline.serve.decisions.flight import Flight
from crossline.serve.decisions.interfaces import IdClaim, RecordedAnswer, ServiceParts
from crossline.serve.decisions.records import CheckedRecord, RefusedRecord
from crossline.serve.decisions.replies import (
    DecisionAnswer,
    HttpReply,
    asked_of,
    differs,
    kept_before,
    no_stream,
    problem,
    stalled,
    unkept,
)
from crossline.serve.decisions.values import (
    Degraded,
    LogPosition,
    NotJudgedError,
    OutcomeUnknownError,
    PipelinedLog,
    SubmittedRecord,
)
from crossline.serve.fault_log import noted, with_fault

Mode = Literal["exact", "peek"]
# Of a request's time, for keeping the answer and sending it: so long, or twice as long as that took lately, and no more
# than this share. It is time that only what is not judged yet would have had.
MARGIN_SHARE_MAX, MARGIN_S = 0.2, 0.025
LATELY = 0.98  # what is left, after another answer, of how long one took
SEEN_S_MAX = 0.05
LATE_S_MAX, LATE_PAUSE_S = 50.0, 0.5  # for so long it is looked whether an answer was kept; less than a claim may take
REPLAYED = {"Idempotency-Replayed": "true"}

log = get_logger(__name__)


class DecisionService:
    """Answers requests about records; all calls from one event loop."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._numbers = count(1)
        self._flights: dict[tuple[str, str], Flight] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checks = {stream: Gathered(self._check_of(stream)) for stream in parts.records.streams}
        self._puts = {
            stream: each.put if isinstance(each, PipelinedLog) else Batched(each.append).put
            for stream, each in parts.logs.items()
        }
        self._judging = AnswerBuilder(parts)
        self._dry = DryRunService(parts.judge, self._judging)
        self._ending = asyncio.Event()
        self._keeping_s = 0.0  # how long it took lately to keep an answer
        # A dry run puts nothing anywhere: it may ask about streams whose records come another way too.
        streams = parts.records.streams.items()
        self._judged_streams = {*parts.logs, *(name for name, spec in streams if spec.format == "json")}

    def _check_of(self, stream: str) -> Callable[[list[bytes]], list[CheckedRecord | RefusedRecord]]:
        def check(bodies: list[bytes]) -> list[CheckedRecord | RefusedRecord]:
            return self._parts.records.check(stream, bodies, _now_ms())

        return check

    async def decide(
        self, stream: str, body: bytes, mode: Mode, timeout_s: float, *, dry_run: bool = False
    ) -> HttpReply:
        """What is decided about the record in ``body``; a problem where it cannot be asked about.

        ``timeout_s``: from now until the reply is to be there.
        """
        if dry_run:
            (reply,) = await self.dry(stream, [body], timeout_s)
            return reply
        arrived_s = asyncio.get_running_loop().time()
        until_s = arrived_s + timeout_s
        deadline_s = until_s - min(timeout_s * MARGIN_SHARE_MAX, max(MARGIN_S, 2 * self._keeping_s))
        if stream not in self._parts.logs:
            return no_stream(stream)
        asked = asked_of(stream, await self._checks[stream].put(body), next(self._numbers))
        if isinstance(asked, HttpReply):
            return asked
        return await self._once(asked, mode, arrived_s, deadline_s, until_s)

    async def dry(self, stream: str, bodies: Sequence[bytes], timeout_s: float) -> list[HttpReply]:
        """What would be decided about records, posted one after the other; nothing is kept. See ``DryRunService``."""
        if stream not in self._judged_streams:
            return [no_stream(stream)] * len(bodies)
        checked = await asyncio.gather(*(self._checks[stream].put(body) for body in bodies))
        asked = [asked_of(stream, each, next(self._numbers)) for each in checked]
        within_s = timeout_s - min(timeout_s * MARGIN_SHARE_MAX, MARGIN_S)
        found: list[HttpReply] = await self._run(self._dry.replies(asked, within_s))
        return found

    async def _once(
        self, asked: SubmittedRecord, mode: Mode, arrived_s: float, deadline_s: float, until_s: float
    ) -> HttpReply:
        """All who ask about one record get one answer."""
        which = (asked.stream, asked.record_id)
        flight = self._flights.get(which)
        if flight is not None:
            if flight.asked.digest != asked.digest:
                return differs(asked)
            flight.hurry(deadline_s, until_s)
            reply = await flight.reply()
            replayed = REPLAYED if reply.status == HTTPStatus.OK else {}
            return HttpReply(reply.status, reply.body, reply.form, {**reply.headers, **replayed})
        flight = self._flights[which] = Flight(asked, arrived_s, deadline_s, until_s)
        answered = flight.reply()
        self._run(self._fly(flight, mode, which))
        return await answered

    async def _fly(self, flight: Flight, mode: Mode, which: tuple[str, str]) -> None:
        """A task of its own: it goes on though who asked has gone."""
        reply: HttpReply | None = None
        try:
            reply = await self._reply(flight, mode)
        except Exception as error:
            fault = noted("a request could not be answered", error)
            log.exception("this is why it could not", fault=fault, stream=which[0], record_id=which[1])
            self._run(self._release(flight.asked))
            reply = problem(HTTPStatus.INTERNAL_SERVER_ERROR, with_fault("it could not be answered", fault))
        finally:
            del self._flights[which]
            flight.land(reply or problem(HTTPStatus.SERVICE_UNAVAILABLE, "the API ends; ask again with the same id"))

    async def _reply(self, flight: Flight, mode: Mode) -> HttpReply:
        try:
            async with flight.in_time():
                left_s = flight.deadline_s - asyncio.get_running_loop().time()
                claim = await self._parts.ledger.claim(flight.asked, max(0.0, left_s))
        except (TimeoutError, RetryableError) as error:
            fault = noted("an id could not be claimed", str(error) or "it takes too long")
            return unkept(with_fault("the ledger does not take it now", fault))
        if claim.outcome != "fresh":
            return _known_reply(flight.asked, claim)
        return await self._fresh(flight, mode)

    async def _fresh(self, flight: Flight, mode: Mode) -> HttpReply:
        """A new id: its record is put into its stream, and judged meanwhile."""
        # The judge gets the record before it has its place.
        peeked = self._peeked(flight.asked, mode)
        kept = self._puts[flight.asked.stream](flight.asked)
        kept.add_done_callback(partial(self._placed, flight.asked.number))
        judged = peeked if peeked is not None and mode == "peek" else self._run(self._exact(flight.asked, peeked, kept))
        await flight.until(kept, judged)
        if mode == "peek" and kept.done() and _is_known(judged):
            judged = self._run(self._exact(flight.asked, peeked, kept))
            await flight.until(judged)
        if kept.done() and (failure := kept.exception()) is not None:
            judged.cancel()
            self._parts.judge.dropped(flight.asked.number)
            fault = noted("a record could not be kept", failure, stream=flight.asked.stream)
            return await self._undone(flight, with_fault("its stream does not take it now", fault))
        answer = self._judging.answer(flight.asked, flight.deadline_s - flight.arrived_s, judged)
        if not kept.done():
            late = Degraded("stream", "the record was not acknowledged in time; it is sent on from the outbox")
            answer = _degraded(answer, late)
            try:
                async with flight.left():
                    await self._parts.outbox.put([flight.asked])
            except (RetryableError, TimeoutError) as error:
                fault = noted("a record could not be kept in the outbox", str(error) or "it takes too long")
                return await self._undone(flight, with_fault("neither its stream nor the outbox takes it now", fault))
            self._run(self._deliver(flight.asked, kept))
        return await self._send(flight, answer, kept)

    def _peeked(self, asked: SubmittedRecord, mode: Mode) -> asyncio.Task[DecisionAnswer] | None:
        """The answer of a replica; None if it is not needed: then the replica gets the record for later ones."""
        if mode == "exact" and asked.stream in self._parts.by_broker:
            self._parts.judge.lay([asked])
            return None
        return self._run(self._judging.judged(asked))

    async def _undone(self, flight: Flight, why: str) -> HttpReply:
        """Nothing was decided: who asks again begins anew."""
        releasing = self._run(self._release(flight.asked))
        with suppress(TimeoutError):  # it goes on
            async with flight.left():
                await asyncio.shield(releasing)
        return unkept(why)

    async def _release(self, asked: SubmittedRecord) -> None:
        try:
            await self._parts.ledger.release(asked)
        except RetryableError as error:
            log.warning(
                "a claim could not be given up", stream=asked.stream, record_id=asked.record_id, error=str(error)
            )

    def _placed(self, number: int, kept: asyncio.Future[LogPosition]) -> None:
        if not kept.cancelled() and kept.exception() is None:
            self._parts.judge.placed(number, kept.result())

    async def _deliver(self, asked: SubmittedRecord, kept: asyncio.Future[LogPosition]) -> None:
        """It was answered: so it gets into its stream, however long that takes."""
        with suppress(RetryableError):
            place = await kept
            self._parts.on_placed(asked.stream, asked.record_id, place)
            await self._parts.outbox.done(asked)

    async def _exact(
        self, asked: SubmittedRecord, peeked: asyncio.Task[DecisionAnswer] | None, kept: asyncio.Future[LogPosition]
    ) -> DecisionAnswer:
        """The pipeline's own decision; ``peeked``: the answer of a replica, if one is asked."""
        place = await asyncio.shield(kept)
        ingest_ms = None
        if peeked is not None:
            await asyncio.wait({peeked}, timeout=SEEN_S_MAX)  # only for the record's ingest time: the stream decides
        if peeked is not None and peeked.done() and not peeked.cancelled() and peeked.exception() is None:
            ingest_ms = parse_instant_ms(peeked.result().decision["ingest_time"])
        return DecisionAnswer(asked, await self._parts.stream.decision(asked, place, ingest_ms), "exact")

    async def _send(self, flight: Flight, answer: DecisionAnswer, kept: asyncio.Future[LogPosition]) -> HttpReply:
        """Once the answer is written down: else who asks again, with the same id, might get another one."""
        begun_s = asyncio.get_running_loop().time()
        body = answer.to_json(_now_ms(), (begun_s - flight.arrived_s) * 1000)
        try:
            async with flight.left():
                given = await self._parts.ledger.answer(answer, body)
        except OutcomeUnknownError as error:
            noted("it is unknown yet whether an answer was stored", error)
            self._run(self._late(answer, body, kept, LATE_S_MAX))
            return stalled()
        except RetryableError as error:
            fault = noted("an answer could not be kept", error)
            return await self._undone(flight, with_fault("the ledger does not take the answer now", fault))
        except TimeoutError:
            self._run(self._late(answer, body, kept))
            return stalled()
        finally:
            took_s = asyncio.get_running_loop().time() - begun_s
            self._keeping_s = max(took_s, self._keeping_s * LATELY)
        return self._sent(answer, given, kept)

    def _sent(
        self, answer: DecisionAnswer, given: RecordedAnswer | None, kept: asyncio.Future[LogPosition]
    ) -> HttpReply:
        if given is None:
            return differs(answer.asked)
        placed = kept.done() and kept.exception() is None  # now, and not when the answer was begun
        # What holds is what was kept first: that is sent, and held to what the stream decides.
        holds = answer if given.first else kept_before(answer, given.body)
        self._parts.on_answer(holds, kept.result() if placed else None)
        return HttpReply(HTTPStatus.OK, given.body)

    async def _late(
        self, answer: DecisionAnswer, body: Mapping[str, Any], kept: asyncio.Future[LogPosition], within_s: float = 0.0
    ) -> None:
        """Nobody waits for the answer any more; who asks again gets it. What was written down already stays so.

        ``within_s``: for so long the ledger is asked again where it takes nothing, since it may have the answer.
        """
        until_s = asyncio.get_running_loop().time() + within_s
        while True:
            try:
                self._sent(answer, await self._parts.ledger.answer(answer, body), kept)
            except Exception as error:  # noqa: BLE001 - no other caller gets this error
                over = asyncio.get_running_loop().time() >= until_s or self._ending.is_set()
                if isinstance(error, RetryableError) and not over:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._ending.wait(), LATE_PAUSE_S)
                    continue
                log.warning("an answer could not be kept", stream=answer.asked.stream, error=str(error))
                await self._release(answer.asked)
            return

    def _run(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waited may be gone: then it is not read

    async def close(self) -> None:
        """Wait for what is under way, which has its deadlines."""
        self._ending.set()
        while self._tasks:
            await asyncio.wait(set(self._tasks))


def _is_known(judged: asyncio.Future[DecisionAnswer]) -> bool:
    """Whether a batch has the record already.

    It was quicker, or the id was asked about before a kill. To a replica it is a copy of itself then: the stream's own
    decision is there, or will be at once.
    """
    error = judged.exception() if judged.done() and not judged.cancelled() else None
    return isinstance(error, NotJudgedError) and error.part == "record"


def _known_reply(asked: SubmittedRecord, claim: IdClaim) -> HttpReply:
    """Of an id that was asked about before."""
    if claim.outcome == "answered" and claim.body is not None:
        return HttpReply(HTTPStatus.OK, claim.body, headers=REPLAYED)
    return differs(asked) if claim.outcome == "differs" else unkept("another process is answering about this record")


def _degraded(answer: DecisionAnswer, why: Degraded) -> DecisionAnswer:
    return replace(answer, degraded=(*answer.degraded, why))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
