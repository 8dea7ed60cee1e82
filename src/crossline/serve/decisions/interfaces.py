"""What the service is made of, each as it asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.values import Judge, LogPosition, RecordLog, SubmittedRecord


@dataclass(frozen=True, slots=True)
class IdClaim:
    """An id in the ledger: ``fresh``, ``answered`` (then ``body``), ``differs``, or ``pending`` elsewhere."""

    outcome: Literal["fresh", "answered", "differs", "pending"]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer that holds for an id, as it is sent. ``first``: it is the one that was to be kept, and no other's."""

    body: bytes
    first: bool = True


class AnswerLedger(Protocol):
    """The ledger: which ids were asked about, and what was answered."""

    async def claim(self, asked: SubmittedRecord, timeout_s: float) -> IdClaim:
        """Claim its id; one that is ``pending`` is waited for, until time is up."""
        ...

    async def answer(self, answer: DecisionAnswer, body: Mapping[str, Any]) -> RecordedAnswer | None:
        """Keep an answer with its receipt; what to send, which names it. None: another content has the id."""
        ...

    async def release(self, asked: SubmittedRecord) -> None:
        """Nothing was decided about it: who asks again begins anew."""
        ...


class Outbox(Protocol):
    """Records that were answered before their stream took them."""

    async def put(self, asked: Sequence[SubmittedRecord]) -> None:
        """Keep them, on disk, until ``done``."""
        ...

    async def done(self, asked: SubmittedRecord) -> None:
        """Its stream has it."""
        ...


class PipelineStream(Protocol):
    """What the pipeline itself decides."""

    async def decision(self, asked: SubmittedRecord, place: LogPosition, ingest_ms: int | None) -> Mapping[str, Any]:
        """Its decision about a record, once a batch covers it. Raises NotJudgedError if it makes none.

        ``ingest_ms``: of the record, as the pipeline reads it; None if it is unknown.
        """
        ...


class FallbackPolicy(Protocol):
    """The decision of the policy where nothing can be judged."""

    version: int

    def decide(self, asked: SubmittedRecord) -> str:
        """A decision by the record's own fields."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """What the service is made of.

    ``by_broker``: streams whose ingest time is a broker's: who waits for the stream needs no replica to know it.
    ``on_answer`` is called with every answer and the place of its record (None: it has none yet); ``on_placed`` where
    such a record came to stand (stream, id, place).
    """

    records: StreamRecords
    judge: Judge
    stream: PipelineStream
    ledger: AnswerLedger
    outbox: Outbox
    logs: Mapping[str, RecordLog]
    fallback: FallbackPolicy
    on_answer: Callable[[DecisionAnswer, LogPosition | None], None] = lambda _, __: None
    on_placed: Callable[[str, str, LogPosition], None] = lambda _, __, ___: None
    by_broker: frozenset[str] = frozenset()
