"""What the parts of the decision API hand each other: plain values, no I/O.

The way of a request: it is checked against its stream, its id is claimed in the ledger, its record is put into the
stream (``RecordLog``), a replica judges it meanwhile (``Judge``), and what is answered is kept with a receipt
(``Ledger``). What cannot be judged in time is answered by the policy's fallback.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from crossline.basics.errors import RetryableError
from crossline.basics.streams.api_record import LogPosition, SubmittedRecord

__all__ = [
    "Answered",
    "AsOf",
    "Basis",
    "Degraded",
    "Judge",
    "LogPosition",
    "NotJudgedError",
    "OutcomeUnknownError",
    "PipelinedLog",
    "RecordLog",
    "RecordVerdict",
    "SubmittedRecord",
]

Answered = Literal["exact", "peek", "fallback"]


@dataclass(frozen=True, slots=True)
class AsOf:
    """The state that was judged on: after ``batch``, ``age_ms`` ago, and so many records of this API on top."""

    batch: int
    age_ms: int
    laid_over: int

    def to_json(self) -> dict[str, int]:
        """As the API returns it."""
        return {"batch": self.batch, "age_ms": self.age_ms, "laid_over": self.laid_over}


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that could not be judged, such as ``rule:card_burst`` or ``replica``, and why."""

    part: str
    why: str

    def to_json(self) -> dict[str, str]:
        """As the API returns it."""
        return {"part": self.part, "why": self.why}


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """What was judged about one record.

    ``decision``: as the pipeline writes decisions (``core.decide.decision``). ``figures``: by rule id, as the API
    returns them. ``evidence``: by rule id, ids of the records that the figure is of (as many as the alert names), and
    ``count``. ``basis``: digest of what was in force (see ``Basis``).
    """

    decision: Mapping[str, Any]
    figures: Mapping[str, Mapping[str, Any]]
    evidence: Mapping[str, Mapping[str, Any]]
    as_of: AsOf
    basis: str
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class Basis:
    """What was in force when a record was judged.

    ``rules``: {rule_id, version, digest} each; ``lists`` and ``models``: by name, the digest of the content.
    """

    digest: str
    policy_version: int
    policy_digest: str
    rules_digest: str
    rules: Sequence[Mapping[str, Any]] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


class NotJudgedError(Exception):
    """No replica judges this now; ``part`` and ``why`` are returned as ``degraded``."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self.part, self.why = part, why


class OutcomeUnknownError(RetryableError):
    """Nobody knows whether the ledger has what it was given: its server was lost in the midst of it.

    The same call again, once the server is there, finds it out.
    """


class Judge(Protocol):
    """Judges records on the state as of the last batch, and on what was laid over it; changes nothing that counts."""

    async def judge(
        self, asked: Sequence[SubmittedRecord], *, keep: bool = True
    ) -> list[RecordVerdict | NotJudgedError]:
        """What holds at each, in their order. ``keep``: those that come later see them (no: a dry run).

        Raises NotJudgedError if none can be judged. May be cancelled at any moment: what was laid over stays.
        """
        ...

    def lay(self, asked: Sequence[SubmittedRecord]) -> None:
        """Records of the stream without a request: later records see them all the same."""
        ...

    def placed(self, number: int, place: LogPosition) -> None:
        """The record of that number stands there: once a batch is beyond it, it need not be laid over any more."""
        ...

    def dropped(self, number: int) -> None:
        """The record of that number is in no stream: it is not laid over any more."""
        ...

    def basis(self, digest: str) -> Basis:
        """What was in force, by the digest that a verdict names."""
        ...


class RecordLog(Protocol):
    """Puts records into a stream. What it acknowledges is never lost."""

    async def append(self, asked: Sequence[SubmittedRecord]) -> list[LogPosition]:
        """Put them there, in their order; returns once all are kept (synced, or acknowledged by all brokers).

        A record whose id is there already is not put there again: its place is that of the first. Raises a
        ``RetryableError`` where none, or an unknown part, could be stored.
        """
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


@runtime_checkable
class PipelinedLog(RecordLog, Protocol):
    """A record log that takes the next record before it has acknowledged the one before, and keeps their order."""

    def put(self, asked: SubmittedRecord) -> Future[LogPosition]:
        """As ``append`` of one record."""
        ...
