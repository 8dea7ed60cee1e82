"""Fakes of the parts of the decision API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from crossline.basics.errors import RetryableError
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.decisions.decision import decision_id
from crossline.serve.decisions.interfaces import IdClaim, RecordedAnswer, ServiceParts
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.service import DecisionService
from crossline.serve.decisions.values import (
    AsOf,
    Basis,
    Degraded,
    LogPosition,
    NotJudgedError,
    RecordVerdict,
    SubmittedRecord,
)

PAYMENTS = StreamSpec.model_validate(
    {
        "format": "json",
        "id": "id",
        "event_time": {"field": "at", "unit": "ms"},
        "fields": {"id": "string", "account": "string", "cents": "integer?", "at": "integer"},
    }
)


def payment(record_id: str, cents: int = 100) -> bytes:
    return orjson.dumps({"id": record_id, "account": "a1", "cents": cents, "at": 1_767_225_600_000})


def decided(asked: SubmittedRecord, decision: str) -> dict[str, Any]:
    return {
        "decision_id": decision_id(1, asked.stream, asked.record_id),
        "decision": decision,
        "score": 0,
        "reasons": [],
        "policy_version": 1,
        "rules_digest": "d",
        "ingest_time": "2026-01-01T00:00:00.000Z",
    }


@dataclass
class FakeJudge:
    """Says ``says``; ``held``: not before this is set; ``error``: instead. ``degraded``: of each verdict."""

    says: str = "review"
    degraded: tuple[Degraded, ...] = ()

    held: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    seen: list[str] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: set[int] = field(default_factory=set)
    placed_at: dict[int, LogPosition] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    laid: list[str] = field(default_factory=list)
    dry: list[str] = field(default_factory=list)
    dry_calls: int = 0

    async def judge(
        self, asked: Sequence[SubmittedRecord], *, keep: bool = True
    ) -> list[RecordVerdict | NotJudgedError]:
        self.dry_calls += not keep
        (self.seen if keep else self.dry).extend(each.record_id for each in asked)
        self.numbers.update(each.number for each in asked)
        self.asked.set()
        await self.held.wait()
        if self.error is not None:
            raise self.error
        as_of = AsOf(7, 40, 0)
        return [RecordVerdict(decided(each, self.says), {}, {}, as_of, "basis", self.degraded) for each in asked]

    def lay(self, asked: Sequence[SubmittedRecord]) -> None:
        self.laid.extend(each.record_id for each in asked)
        self.numbers.update(each.number for each in asked)

    def placed(self, number: int, place: LogPosition) -> None:
        assert number in self.numbers, "the place of a record that was not asked about"
        self.placed_at[number] = place

    def dropped(self, number: int) -> None:
        self.gone.append(number)

    def basis(self, digest: str) -> Basis:
        return Basis(digest, 1, "p", "d")


@dataclass
class FakeLog:
    held: asyncio.Event = field(default_factory=asyncio.Event)
    error: RetryableError | None = None
    there: list[str] = field(default_factory=list)

    async def append(self, asked: Sequence[SubmittedRecord]) -> list[LogPosition]:
        await self.held.wait()
        if self.error is not None:
            raise self.error
        self.there.extend(each.record_id for each in asked)
        return [LogPosition("log", number) for number, _ in enumerate(asked, len(self.there))]

    async def close(self) -> None:
        pass


@dataclass
class FakeStream:
    """What the pipeline decides: ``block``, once ``held`` is set."""

    held: asyncio.Event = field(default_factory=asyncio.Event)

    async def decision(self, asked: SubmittedRecord, _: LogPosition, ingest_ms: int | None) -> Mapping[str, Any]:
        await self.held.wait()
        assert ingest_ms in {None, 1_767_225_600_000}
        return decided(asked, "block")


@dataclass
class FakeLedger:
    """As the ledger, in memory. ``keeps``: answers are kept once it is set; ``fails``: and then not.

    ``frees``: claims are given up once it is set. ``other``: an answer that was kept before.
    """

    keeps: asyncio.Event = field(default_factory=asyncio.Event)
    frees: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0  # how many answers it was given
    fails: RetryableError | None = None
    other: bytes | None = None

    known: dict[tuple[str, str], tuple[str, bytes | None]] = field(default_factory=dict)
    error: RetryableError | None = None
    elsewhere: set[str] = field(default_factory=set)

    async def claim(self, asked: SubmittedRecord, _: float) -> IdClaim:
        if self.error is not None:
            raise self.error
        if asked.record_id in self.elsewhere:
            return IdClaim("pending")
        digest, body = self.known.setdefault((asked.stream, asked.record_id), (asked.digest, None))
        if digest != asked.digest:
            return IdClaim("differs")
        return IdClaim("fresh") if body is None else IdClaim("answered", body)

    async def answer(self, answer: DecisionAnswer, content: Mapping[str, Any]) -> RecordedAnswer | None:
        self.asked += 1
        await self.keeps.wait()
        if self.fails is not None:
            raise self.fails
        asked, body = answer.asked, orjson.dumps({**content, "receipt": "r"})
        if self.other is not None:
            return RecordedAnswer(self.other, first=False)
        self.known[asked.stream, asked.record_id] = asked.digest, body
        return RecordedAnswer(body)

    async def release(self, asked: SubmittedRecord) -> None:
        await self.frees.wait()
        del self.known[asked.stream, asked.record_id]


@dataclass
class FakeOutbox:
    takes: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    async def put(self, asked: Sequence[SubmittedRecord]) -> None:
        await self.takes.wait()
        self.waiting.extend(each.record_id for each in asked)

    async def done(self, asked: SubmittedRecord) -> None:
        self.sent.append(asked.record_id)


class FakeFallback:
    version = 1

    def decide(self, asked: SubmittedRecord) -> str:
        return "review" if orjson.loads(asked.raw)["cents"] > 50_000 else "allow"


@dataclass
class Harness:
    """The service over fakes, all of which answer at once unless they are held."""

    judge: FakeJudge = field(default_factory=FakeJudge)
    log: FakeLog = field(default_factory=FakeLog)
    stream: FakeStream = field(default_factory=FakeStream)
    ledger: FakeLedger = field(default_factory=FakeLedger)
    outbox: FakeOutbox = field(default_factory=FakeOutbox)
    answers: list[tuple[DecisionAnswer, LogPosition | None]] = field(default_factory=list)
    by_broker: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for each in self.held():
            each.set()
        # Of these only payments come through the API.
        files = PAYMENTS.model_copy(update={"format": "csv"})
        records = StreamRecords({"payments": PAYMENTS, "generated": PAYMENTS, "files": files})
        logs = {"payments": self.log}
        parts = ServiceParts(
            records=records,
            judge=self.judge,
            stream=self.stream,
            ledger=self.ledger,
            outbox=self.outbox,
            logs=logs,
            fallback=FakeFallback(),
            on_answer=lambda answer, place: self.answers.append((answer, place)),
            by_broker=self.by_broker,
        )
        self.decisions = DecisionService(parts)

    def held(self) -> tuple[asyncio.Event, ...]:
        """What a part waits for before it goes on."""
        kept = (self.ledger.keeps, self.ledger.frees, self.outbox.takes)
        return (self.judge.held, self.log.held, self.stream.held, *kept)
