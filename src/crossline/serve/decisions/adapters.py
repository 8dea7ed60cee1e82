"""What the service asks, answered by the parts that are there: ledger, feed, policy."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import orjson

from crossline.basics.conditions.lists import Lists
from crossline.basics.errors import SourceError, StateError, StoppedError
from crossline.basics.streams.schema import StreamSpec
from crossline.rules.policy.fallback import Fallback
from crossline.rules.policy.hits import DecidedRecord
from crossline.rules.policy.policy import Policy
from crossline.serve.decisions.interfaces import IdClaim, RecordedAnswer
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.values import LogPosition, NotJudgedError, SubmittedRecord
from crossline.serve.fault_log import noted, with_fault
from crossline.serve.feed.exact import Exact, NotDecidedError
from crossline.serve.ledger.base import LedgerAnswer as Kept
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.ledger.queries import (
    read_answer,
    read_differing,
    read_figures,
    read_receipt,
    read_unsettled,
)
from crossline.serve.ledger.receipts import ReceiptEntry

T = TypeVar("T")


class LedgerAnswers:
    """The ledger as the service asks it."""

    def __init__(self, group: LedgerGroup) -> None:
        self._group = group

    async def claim(self, asked: SubmittedRecord, timeout_s: float) -> IdClaim:
        """Claim its id; one that another process has is waited for."""
        claimed = await self._group.claim(asked)
        if claimed.outcome == "pending":
            claimed = await self._group.settled(asked, timeout_s)
        return IdClaim(claimed.outcome, claimed.body)

    async def answer(self, answer: DecisionAnswer, body: Mapping[str, Any]) -> RecordedAnswer | None:
        """Keep an answer; what its client gets, which may be one that was given before."""
        entry = ReceiptEntry(answer.asked, body, answer.basis, answer.figures, answer.evidence)
        kept = await self._group.answer(entry)
        return None if kept is None else RecordedAnswer(kept.body, kept.first)

    async def release(self, asked: SubmittedRecord) -> None:
        """Nothing was decided about it."""
        await self._group.call(lambda ledger: ledger.release([asked]))


class FeedStream:
    """The pipeline's own decisions, out of its feed.

    ``by_broker``: streams whose ingest time is a broker's, and so about that of the request.
    """

    def __init__(self, exact: Exact, records: StreamRecords, by_broker: frozenset[str]) -> None:
        self._exact = exact
        self._records = records
        self._by_broker = by_broker

    async def decision(self, asked: SubmittedRecord, place: LogPosition, ingest_ms: int | None) -> Mapping[str, Any]:
        """As the service asks for it."""
        event_ms = self._records.event_ms(asked.stream, asked.raw)
        if ingest_ms is None:
            ingest_ms = asked.ingest_ms if asked.stream in self._by_broker else event_ms
        record = DecidedRecord(asked.stream, asked.record_id, event_ms, ingest_ms)
        try:
            return await self._exact.decision(record, place)
        except NotDecidedError as error:
            raise NotJudgedError("stream", f"{error.reason}: {error.detail}") from None
        except (StoppedError, StateError) as error:
            fault = noted("what a batch gave cannot be read", error)
            raise NotJudgedError("stream", with_fault("what its batch gave cannot be read", fault)) from None


class PolicyFallback:
    """The policy's fallback over the records of each stream. ``lists``: those in force now."""

    def __init__(
        self, policy: Policy, streams: Mapping[str, StreamSpec], records: StreamRecords, lists: Callable[[], Lists]
    ) -> None:
        self.version = policy.version
        self._of = {stream: Fallback.of(policy.fallback, stream, streams) for stream in streams}
        self._records = records
        self._lists = lists

    def decide(self, asked: SubmittedRecord) -> str:
        """The decision of the first branch that holds."""
        fields = self._records.fields(asked.stream, asked.raw)
        return self._of[asked.stream].decide(fields, self._lists(), asked.ingest_ms).decision


class LedgerReads(Protocol):
    """What was answered, from whichever thread."""

    def answer(self, decision_id: str) -> Kept | None:
        """The answer with this id."""
        ...

    def by_record(self, stream: str, record_id: str) -> Kept | None:
        """The answer about a record."""
        ...

    def receipt(self, decision_id: str) -> dict[str, Any] | None:
        """The receipt of an answer."""
        ...

    def unsettled(self, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
        """See ``read_unsettled``."""
        ...

    def differing(self, since_ms: int, most: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """See ``read_differing``."""
        ...

    def figures(self, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        """See ``read_figures``."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


class SqliteReads:
    """Implements LedgerReads over the ledger's file: each call has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True)) as connection:
                return ask(connection)
        except sqlite3.Error as error:
            raise SourceError(f"the ledger {self._path} cannot be read now: {error}") from None

    def answer(self, decision_id: str) -> Kept | None:
        """See the protocol."""
        return self._read(lambda ledger: read_answer(ledger, "decision_id = ?", (decision_id,)))

    def by_record(self, stream: str, record_id: str) -> Kept | None:
        """See the protocol."""
        given = (stream, record_id)
        return self._read(lambda ledger: read_answer(ledger, "stream = ? AND record_id = ?", given))

    def receipt(self, decision_id: str) -> dict[str, Any] | None:
        """See the protocol."""
        return self._read(lambda ledger: read_receipt(ledger, decision_id))

    def unsettled(self, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
        """See the protocol."""
        return self._read(lambda ledger: read_unsettled(ledger, since_ms, most))

    def differing(self, since_ms: int, most: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """See the protocol."""
        return self._read(lambda ledger: read_differing(ledger, since_ms, most))

    def figures(self, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        """See the protocol."""
        return self._read(lambda ledger: read_figures(ledger, records))

    def close(self) -> None:
        """Nothing is held."""


class LedgerDecisions:
    """What was answered, as the routes read it, from whichever thread.

    Args:
        reads: The ledger.
        streams: Those that records may be of.
    """

    def __init__(self, reads: LedgerReads, streams: Iterable[str]) -> None:
        self._reads = reads
        self._streams = tuple(streams)

    def close(self) -> None:
        """Let go of the ledger."""
        self._reads.close()

    def unsettled(self, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
        """See ``read_unsettled``."""
        return self._reads.unsettled(since_ms, most)

    def differing(self, since_ms: int, most: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Answers that the stream decided otherwise, each with that decision, the latest first."""
        return self._reads.differing(since_ms, most)

    def figures(self, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        """The figures of records that were answered by a peek, by the name of the rule."""
        return self._reads.figures(records)

    def decision(self, decision_id: str) -> Mapping[str, Any] | None:
        """As it was answered; None if it never was."""
        found = self._reads.answer(decision_id)
        return None if found is None else _body_of(found)

    def decisions(self, record_id: str, stream: str | None, after: str | None, limit: int) -> list[Mapping[str, Any]]:
        """Those on a record, in order of their ids."""
        streams = self._streams if stream is None else (stream,)
        found = [self._reads.by_record(each, record_id) for each in streams]
        revisions = sorted((_body_of(each) for each in found if each is not None), key=_id)
        return [each for each in revisions if after is None or _id(each) > after][:limit]

    def revisions(self, decision_id: str) -> list[Mapping[str, Any]]:
        """What the stream decided otherwise since."""
        found = self._reads.answer(decision_id)
        return [] if found is None else list(found.revisions)

    def receipt(self, decision_id: str) -> Mapping[str, Any] | None:
        """Its receipt."""
        return self._reads.receipt(decision_id)


def _body_of(answer: Kept) -> Mapping[str, Any]:
    body: dict[str, Any] = orjson.loads(answer.body)
    return body


def _id(decision: Mapping[str, Any]) -> str:
    return str(decision["decision_id"])
