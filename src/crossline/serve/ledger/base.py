"""Requests and answers of a ledger: the interface that a ledger on one machine and one on many share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from crossline.serve.decisions.values import SubmittedRecord
from crossline.serve.ledger.receipts import ChainHead, ReceiptEntry
from crossline.serve.revisions.values import Revision

Outcome = Literal["fresh", "answered", "differs", "pending"]


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of the claim of an id.

    ``fresh``: it is the caller's to answer. ``answered``: it was, with ``body``. ``differs``: it was asked with another
    body, which is a conflict. ``pending``: another request, here or in another process, has it under way.
    ``again``: a claim without an answer was taken over; its record may be in the stream already.
    """

    outcome: Outcome
    body: bytes | None = None
    decision_id: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer that holds for an id: what the client must be sent.

    ``first``: it is the one of this call. Else another was stored before, since the claim had been taken over.
    ``digest``: of its receipt.
    """

    body: bytes
    decision_id: str
    digest: str
    first: bool = True


@dataclass(frozen=True, slots=True)
class LedgerAnswer:
    """An answer that was given, as it was sent, and what the stream made of it since."""

    stream: str
    record_id: str
    decision_id: str
    body: bytes
    answered_ms: int
    digest: str
    revisions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """How much was answered, by how; what was revised of that; and where another decision came out of it.

    ``revised``: answers with a revision; ``differs``: those whose last revision decides otherwise. By how they were
    answered. ``pending``: claims without an answer.
    """

    answered: Mapping[str, int] = field(default_factory=dict)
    revised: Mapping[str, int] = field(default_factory=dict)
    differs: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0

    def share(self, answered: str) -> float:
        """Which share of the answers of a kind the stream decided otherwise, 0 to 1."""
        return self.differs.get(answered, 0) / total if (total := self.answered.get(answered, 0)) else 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        shares = {name: self.share(name) for name in self.answered}
        return {
            "answered": dict(self.answered),
            "revised": dict(self.revised),
            "differs": dict(self.differs),
            "differs_share": shares,
            "pending": self.pending,
        }


class DecisionLedger(Protocol):
    """Each (stream, record id) with its one answer, and the receipts in their chains.

    Every process that answers for a stream must see the same one. ``SqliteLedger`` is for the processes of one machine.
    Across machines PostgreSQL can hold the same tables: the primary key of ``answers`` decides who claims an id, a
    session's advisory lock stands for the lock of a slot.
    """

    def claim(self, asked: Sequence[SubmittedRecord]) -> list[Claimed]:
        """Claim ids, in their order; every process sees what is fresh before this returns.

        Raises RetryableError, with nothing claimed, where the ledger takes nothing now.
        """
        ...

    def answer(self, entries: Sequence[ReceiptEntry]) -> list[StoredAnswer | None]:
        """Keep answers with their receipts, all or none; what holds for each is what its client must be sent.

        None: the id was given up meanwhile, and was asked with another body: a conflict.

        Raises RetryableError, with nothing kept, where the ledger takes nothing now: nothing may be sent then.
        OutcomeUnknownError if that is unknown.
        """
        ...

    def exchange(
        self, asked: Sequence[SubmittedRecord], entries: Sequence[ReceiptEntry]
    ) -> tuple[list[Claimed], list[StoredAnswer | None]]:
        """Keep answers, then claim ids, in one transaction: what a group commit is made of. Raises as the two."""
        ...

    def release(self, asked: Sequence[SubmittedRecord], *, forget: bool = False) -> None:
        """Give up claims of this process that it will not answer, so that the next request is fresh.

        The id stays with its body, since the record may be in the stream. ``forget``: nothing was put into the stream;
        the id is as if it had not been requested.
        """
        ...

    def decision(self, decision_id: str) -> LedgerAnswer | None:
        """The answer with this id; None if there is none."""
        ...

    def by_record(self, stream: str, record_id: str) -> LedgerAnswer | None:
        """The answer about a record; None if there is none."""
        ...

    def receipt(self, decision_id: str) -> dict[str, Any] | None:
        """The receipt of an answer; None if there is none."""
        ...

    def revise(self, decision_id: str, revision: Mapping[str, Any], report: Revision | None = None) -> bool:
        """Keep what the stream made of an answer; whether that is new. The same revision again changes nothing.

        ``report``: the revision to deliver to payment systems; stored with it until ``mark_reported``. A
        ledger of one process alone stores none: that process queues it before.
        """
        ...

    def unreported(self, most: int) -> list[Revision]:
        """The revisions that this process is to deliver: its own, and those of processes that have ended."""
        ...

    def mark_reported(self, revision_ids: Sequence[str]) -> None:
        """These are delivered, or durably queued."""
        ...

    def counts(self) -> AnswerCounts:
        """How much was answered, revised, and decided otherwise."""
        ...

    def expire(self, before_ms: int, most: int = 500) -> int:
        """Remove the oldest answers from before ``before_ms``, ``most`` at once; how many went."""
        ...

    def newest_ms(self) -> int | None:
        """When the last answer was kept, in epoch ms; None if there is none. A few are looked at, not all."""
        ...

    @property
    def link(self) -> ChainHead:
        """Where the chain of this process stands."""
        ...

    def close(self) -> None:
        """Let go of it; safe to call twice."""
        ...
