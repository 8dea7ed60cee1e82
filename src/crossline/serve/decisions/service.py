"""Requests for decisions: each checked, claimed, put into its stream, judged meanwhile, answered in time and kept.

No request waits beyond its deadline, and none is answered before its record is kept: in its stream, or, where that
does not take it in time, in the outbox, from which it gets there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import count
from typing import Any, Literal, Protocol

import orjson

from crossline.core.basics.errors import RetryableError
from crossline.core.basics.times import parse_instant_ms
from crossline.logs import get_logger
from crossline.serve.decisions.batched import Batched
from crossline.serve.decisions.flight import Flight
from crossline.serve.decisions.records import Checked, Refused, StreamRecords
from crossline.serve.decisions.replies import Answer, Reply, fallback_decision, problem
from crossline.serve.decisions.values import (
    Asked,
    Degraded,
    Judge,
    NotJudgedError,
    Place,
    RecordLog,
    Verdict,
)

Mode = Literal["exact", "peek"]
MARGIN_SHARE, MARGIN_S_MAX = 0.2, 0.005  # of a request's time: for keeping the answer and sending it
KEEP_S_MAX = 2.0  # for what is written down of an answer, beyond its deadline
SEEN_S_MAX = 0.05
REPLAYED = {"Idempotency-Replayed": "true"}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """What the ledger says of an id: ``fresh``, ``answered`` (then ``body``), ``differs``, or ``pending`` elsewhere."""

    outcome: Literal["fresh", "answered", "differs", "pending"]
    body: bytes | None = None


class Answers(Protocol):
    """The ledger: which ids were asked about, and what was answered."""

    async def claim(self, asked: Asked, timeout_s: float) -> Claim:
        """Claim its id; one that is ``pending`` is waited for, until time is up."""
        ...

    async def answer(self, answer: Answer, said: Mapping[str, Any]) -> bytes | None:
        """Keep an answer with its receipt; the body to send, which names it. None: another content has the id."""
        ...

    async def release(self, asked: Asked) -> None:
        """Nothing was decided about it: who asks again begins anew."""
        ...


class Outbox(Protocol):
    """Records that were answered before their stream took them."""

    async def put(self, asked: Sequence[Asked]) -> None:
        """Keep them, on disk, until ``done``."""
        ...

    async def done(self, asked: Asked) -> None:
        """Its stream has it."""
        ...


class Stream(Protocol):
    """What the pipeline itself decides."""

    async def decision(self, asked: Asked, place: Place, ingest_ms: int | None) -> Mapping[str, Any]:
        """Its decision about a record, once a batch covers it. Raises NotJudgedError where it makes none.

        ``ingest_ms``: of the record, as the pipeline reads it; None where nobody knows.
        """
        ...


class Fallback(Protocol):
    """What the policy says where nothing can be judged."""

    version: int

    def decide(self, asked: Asked) -> str:
        """A decision by the record's own fields."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What the service is made of.

    ``on_answer`` is told of every answer with the place of its record, None where it has none yet; ``on_placed`` where
    such a record came to stand (stream, id, place).
    """

    records: StreamRecords
    judge: Judge
    stream: Stream
    ledger: Answers
    outbox: Outbox
    logs: Mapping[str, RecordLog]
    fallback: Fallback
    on_answer: Callable[[Answer, Place | None], None] = lambda _, __: None
    on_placed: Callable[[str, str, Place], None] = lambda _, __, ___: None


class Decisions:
    """Answers requests about records; all calls from one event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._numbers = count(1)
        self._flights: dict[tuple[str, str], Flight] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checks = {stream: Batched(self._check_of(stream)) for stream in parts.records.streams}
        self._appends = {stream: Batched(each.append) for stream, each in parts.logs.items()}
        self._judged = Batched(parts.judge.judge)
        # A dry run puts nothing anywhere: it may ask about streams whose records come another way too.
        streams = parts.records.streams.items()
        self._judged_streams = {*parts.logs, *(name for name, spec in streams if spec.format == "json")}

    def _check_of(self, stream: str) -> Callable[[list[bytes]], Any]:
        async def check(bodies: list[bytes]) -> list[Checked | Refused]:
            return self._parts.records.check(stream, bodies, _now_ms())

        return check

    async def decide(self, stream: str, body: bytes, mode: Mode, timeout_s: float, *, dry_run: bool = False) -> Reply:
        """What is decided about the record in ``body``; a problem where it cannot be asked about.

        ``timeout_s``: from now until the reply is to be there.
        """
        arrived_s = asyncio.get_running_loop().time()
        deadline_s = arrived_s + timeout_s - min(timeout_s * MARGIN_SHARE, MARGIN_S_MAX)
        if stream not in (self._judged_streams if dry_run else self._parts.logs):
            return problem(HTTPStatus.NOT_FOUND, f"no stream {stream[:100]!r} that takes records here")
        checked = await self._checks[stream].put(body)
        if isinstance(checked, Refused):
            errors = [{"pointer": "", "found": checked.reason, "expected": checked.detail, "hint": None}]
            said = f"the record does not fit stream {stream}: {checked.detail}"
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, said, errors)
        asked = Asked(next(self._numbers), stream, checked.record_id, checked.raw, checked.digest, _now_ms())
        if dry_run:
            return await self._dry(Flight(asked, arrived_s, deadline_s))
        return await self._once(asked, mode, arrived_s, deadline_s)

    async def _once(self, asked: Asked, mode: Mode, arrived_s: float, deadline_s: float) -> Reply:
        """All who ask about one record get one answer."""
        which = (asked.stream, asked.record_id)
        flight = self._flights.get(which)
        if flight is not None:
            if flight.asked.digest != asked.digest:
                return _differs(asked)
            flight.hurry(deadline_s)
            reply = await asyncio.shield(flight.reply)
            replayed = REPLAYED if reply.status == HTTPStatus.OK else {}
            return Reply(reply.status, reply.body, reply.form, {**reply.headers, **replayed})
        flight = self._flights[which] = Flight(asked, arrived_s, deadline_s)
        self._run(self._fly(flight, mode, which))
        return await asyncio.shield(flight.reply)

    async def _fly(self, flight: Flight, mode: Mode, which: tuple[str, str]) -> None:
        try:
            flight.land(await self._reply(flight, mode))
        except Exception:
            log.exception("a request could not be answered", stream=which[0], record_id=which[1])
            await self._release(flight.asked)
            flight.land(
                problem(HTTPStatus.INTERNAL_SERVER_ERROR, "it could not be answered; the server's log says why")
            )
        finally:
            del self._flights[which]

    async def _reply(self, flight: Flight, mode: Mode) -> Reply:
        try:
            left_s = flight.deadline_s - asyncio.get_running_loop().time()
            claim = await _before(flight, self._run(self._parts.ledger.claim(flight.asked, max(0.0, left_s))))
        except (TimeoutError, RetryableError) as error:
            log.warning("an id could not be claimed", error=str(error) or "it takes too long")
            return _unkept("the ledger does not take it now")
        if claim.outcome != "fresh":
            return _known(flight.asked, claim)
        return await self._fresh(flight, mode)

    async def _fresh(self, flight: Flight, mode: Mode) -> Reply:
        """Of an id that nobody has asked about: put into its stream, and judged meanwhile."""
        kept = self._run(self._keep(flight.asked))
        judged = self._run(self._verdict(flight.asked, mode, kept))
        wanted = {kept, judged}
        while wanted and not flight.late:
            done, _ = await asyncio.wait({*wanted, flight.expired}, return_when=asyncio.FIRST_COMPLETED)
            wanted -= done
        if kept.done() and (failure := kept.exception()) is not None:
            judged.cancel()
            self._parts.judge.dropped(flight.asked.number)
            log.warning("a record could not be kept", stream=flight.asked.stream, error=str(failure))
            return await self._undone(flight, "its stream does not take it now")
        answer = self._answer(flight, judged)
        if not kept.done():
            late = Degraded("stream", "the record was not acknowledged in time; it is sent on from the outbox")
            answer = _degraded(answer, late)
            try:
                await asyncio.wait_for(self._parts.outbox.put([flight.asked]), KEEP_S_MAX)
            except (RetryableError, TimeoutError) as error:
                log.warning("a record could not be kept in the outbox", error=str(error) or "it takes too long")
                return await self._undone(flight, "neither its stream nor the outbox takes it now")
            self._run(self._deliver(flight.asked, kept))
        return await self._send(flight, answer, kept)

    async def _undone(self, flight: Flight, why: str) -> Reply:
        """Nothing was decided: who asks again begins anew."""
        await self._release(flight.asked)
        return _unkept(why)

    async def _release(self, asked: Asked) -> None:
        try:
            await asyncio.wait_for(self._parts.ledger.release(asked), KEEP_S_MAX)
        except (RetryableError, TimeoutError) as error:
            log.warning(
                "a claim could not be given up", stream=asked.stream, record_id=asked.record_id, error=str(error)
            )

    async def _keep(self, asked: Asked) -> Place:
        place = await self._appends[asked.stream].put(asked)
        self._parts.judge.placed(asked.number, place)
        return place

    async def _deliver(self, asked: Asked, kept: asyncio.Task[Place]) -> None:
        """It was answered: so it gets into its stream, however long that takes."""
        with suppress(RetryableError):
            place = await kept
            self._parts.on_placed(asked.stream, asked.record_id, place)
            await self._parts.outbox.done(asked)

    async def _verdict(self, asked: Asked, mode: Mode, kept: asyncio.Task[Place]) -> Answer:
        """By the replica, or, where it is to be ``exact``, by the pipeline.

        One that a batch has already (it was quicker, or the id was asked about before a kill) is to a replica a copy of
        itself: then the stream's own decision is there, or will be at once.
        """
        seen: Verdict | None = None
        peeked = self._judged.put(asked)  # also what is answered exactly is seen by those who come after it
        if mode == "peek":
            try:
                return self._peeked(asked, await peeked)
            except NotJudgedError as error:
                if error.part != "record":
                    raise
        place = await asyncio.shield(kept)
        await asyncio.wait({peeked}, timeout=SEEN_S_MAX)  # only for the record's ingest time: the stream decides
        if peeked.done() and peeked.exception() is None:
            seen = peeked.result()
        ingest_ms = None if seen is None else parse_instant_ms(seen.decision["ingest_time"])
        return Answer(asked, await self._parts.stream.decision(asked, place, ingest_ms), "exact")

    def _peeked(self, asked: Asked, verdict: Verdict) -> Answer:
        basis = self._parts.judge.basis(verdict.basis)
        told = (verdict.figures, verdict.evidence, verdict.as_of, verdict.degraded, basis)
        return Answer(asked, verdict.decision, "peek", *told)

    def _answer(self, flight: Flight, judged: asyncio.Task[Answer]) -> Answer:
        """What was judged; by the fallback where nothing was."""
        if not judged.done():
            judged.cancel()
            within_ms = round((flight.deadline_s - flight.arrived_s) * 1000)
            return self._fallback(flight.asked, Degraded("replica", f"no answer within {within_ms} ms"))
        error = judged.exception()
        if error is None:
            return judged.result()
        if isinstance(error, NotJudgedError):
            return self._fallback(flight.asked, Degraded(error.part, error.why))
        log.error("a record could not be judged", stream=flight.asked.stream, error=repr(error))
        return self._fallback(flight.asked, Degraded("replica", "it failed; the server's log says why"))

    def _fallback(self, asked: Asked, why: Degraded) -> Answer:
        said = fallback_decision(asked, self._parts.fallback.decide(asked), self._parts.fallback.version)
        return Answer(asked, said, "fallback", degraded=(why,))

    async def _send(self, flight: Flight, answer: Answer, kept: asyncio.Task[Place]) -> Reply:
        took_ms = (asyncio.get_running_loop().time() - flight.arrived_s) * 1000
        try:
            writing = self._run(self._parts.ledger.answer(answer, answer.to_json(_now_ms(), took_ms)))
            body = await asyncio.wait_for(asyncio.shield(writing), KEEP_S_MAX)
        except RetryableError as error:
            log.warning("an answer could not be kept", error=str(error))
            return await self._undone(flight, "the ledger does not take the answer now")
        except TimeoutError:  # it may be kept after all: who asks again is told then
            return _unkept("the ledger takes too long to keep the answer")
        if body is None:
            return _differs(flight.asked)
        placed = kept.done() and kept.exception() is None  # now, and not when the answer was begun
        self._parts.on_answer(answer, kept.result() if placed else None)
        return Reply(HTTPStatus.OK, body)

    async def _dry(self, flight: Flight) -> Reply:
        """Judged, and nothing kept."""
        judged = self._run(self._dry_verdict(flight.asked))
        await asyncio.wait({judged, flight.expired}, return_when=asyncio.FIRST_COMPLETED)
        answer = self._answer(flight, judged)
        took_ms = (asyncio.get_running_loop().time() - flight.arrived_s) * 1000
        return Reply(HTTPStatus.OK, orjson.dumps({**answer.to_json(_now_ms(), took_ms), "receipt": None}))

    async def _dry_verdict(self, asked: Asked) -> Answer:
        (verdict,) = await self._parts.judge.judge([asked], keep=False)
        if isinstance(verdict, NotJudgedError):
            raise verdict
        return self._peeked(asked, verdict)

    def _run(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Wait for what is under way, which has its deadlines."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))


async def _before(flight: Flight, future: asyncio.Task[Claim]) -> Claim:
    """What ``future`` gives. Raises TimeoutError where the deadline comes first."""
    waited: set[asyncio.Future[Any]] = {future, flight.expired}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if not future.done():
        future.cancel()  # what is claimed after all is given up
        raise TimeoutError
    return future.result()


def _known(asked: Asked, claim: Claim) -> Reply:
    """Of an id that was asked about before."""
    if claim.outcome == "answered" and claim.body is not None:
        return Reply(HTTPStatus.OK, claim.body, headers=REPLAYED)
    return _differs(asked) if claim.outcome == "differs" else _unkept("another process is answering about this record")


def _degraded(answer: Answer, why: Degraded) -> Answer:
    return replace(answer, degraded=(*answer.degraded, why))


def _differs(asked: Asked) -> Reply:
    said = f"record {asked.record_id!r} of stream {asked.stream} was asked about with another content"
    return problem(HTTPStatus.CONFLICT, said)


def _unkept(why: str) -> Reply:
    """Nothing was decided: who asks again, with the same id, begins anew."""
    said = f"the record could not be kept, and nothing was decided: {why}; ask again with the same id"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, said, headers={"Retry-After": "1"})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
