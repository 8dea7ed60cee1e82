"""A ledger in PostgreSQL, shared by the APIs of several machines: an id has one answer, whichever was asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg

from crossline.basics.errors import RetryableError, StateError
from crossline.io.postgres.client import DatabaseAddress, translated_errors
from crossline.io.postgres.text_escapes import indexed
from crossline.io.sinks.base import wall_clock_ms
from crossline.serve.decisions.values import OutcomeUnknownError, SubmittedRecord
from crossline.serve.ledger.base import AnswerCounts, Claimed, LedgerAnswer, StoredAnswer
from crossline.serve.ledger.postgres.claims import claim_all
from crossline.serve.ledger.postgres.connection_cutter import Cutter
from crossline.serve.ledger.postgres.outbox import drop_unreported, take_unreported
from crossline.serve.ledger.postgres.reads import answer_in, counts_in, receipt_in
from crossline.serve.ledger.postgres.schema import PostgresRows
from crossline.serve.ledger.postgres.session import LedgerSession, Owner, let_go, open_session
from crossline.serve.ledger.postgres.writes import KnownBases, LostSlotError, keep_all, remove_oldest, revise_one
from crossline.serve.ledger.queries import read_newest_ms
from crossline.serve.ledger.receipts import ChainHead, ReceiptEntry
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import CLAIM_MS_MAX
from crossline.serve.revisions.values import Revision

CALL_S_MAX = 5.0  # of one call: a server that does not respond is not waited for
END_S = 1.0  # of letting go of a slot
AGAIN_S = 0.2  # after a connection failed, before another is tried: calls in between fail at once
TRIES = 3  # of a transaction that another one stood in the way of
T = TypeVar("T")
LOOK_S = 0.02  # between two looks at an id that another process has under way


class _InTheWayError(RetryableError):
    """Another transaction stood in the way of this one, which is begun again."""


class _LostError(RetryableError):
    """The connection ended in the midst of a call: what it asked may be done."""


class PostgresLedger:
    """See ``DecisionLedger``. Calls come from one thread at a time.

    Guarantee: what ``answer`` returns is committed, as durable as the server makes it. Of an id one answer is ever
    kept: the primary key decides who claims it, a lock on its row who answers it; a second caller is given that
    answer.

    A process is known by a session that holds an advisory lock. Where that ends (the process is killed, its machine or
    its connection is gone) its claims are for the next caller, and its chain goes on with the next that takes the
    slot. A process that lives and lost its connection takes a slot anew. A claim that was not answered in
    ``claim_ms_max`` is given away in any case; that is measured by the clocks of the machines, and nothing breaks where
    they differ.

    Where a connection ends within a call it is unknown whether that was committed: the call is repeated once
    on another connection, which waits for the end of the transaction of before, by the locks of its rows, and finds
    what it left. Where there is no other connection either, ``OutcomeUnknownError`` reports it of answers.

    Answers and then claims are two transactions here: stored answers are returned though the claims fail, which
    are ``pending`` then.

    Args:
        place: The schema that holds the ledger, made where it is not there.
        signer: Signs receipts.
        clock_ms: When claims and answers are made.
        claim_ms_max: After which an unanswered claim is given to another process.
        pipeline: Whose answers it must have; None: any pipeline.

    Example:
        >>> ledger = PostgresLedger(place_of(settings))  # doctest: +SKIP
        >>> ledger.claim([asked])[0].outcome  # doctest: +SKIP
        'fresh'
    """

    def __init__(
        self,
        place: DatabaseAddress,
        signer: Signer | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        claim_ms_max: int = CLAIM_MS_MAX,
        pipeline: str | None = None,
    ) -> None:
        """Connect, and take a slot.

        Raises StateError if the schema is that of something else, PermanentError where a person has to mend
        something first (it has the answers of another pipeline, say), RetryableError where the server takes nothing
        now.
        """
        self.place = place
        self._signer, self._clock_ms, self._claim_ms_max = signer, clock_ms, claim_ms_max
        self._failed_s = float("-inf")
        self._lost: Owner | None = None  # whose connection ended in the midst of this call
        self._bases = KnownBases()
        with translated_errors(place, writing=True, opening=True):
            self._session: LedgerSession | None = open_session(place, pipeline)
        self._replica = self._session.replica
        self._cutter = Cutter()
        self._open = True

    @property
    def replica(self) -> str:
        """The name of the chain that this process writes; another one after its slot was lost."""
        return self._replica

    @property
    def link(self) -> ChainHead:
        """Where the chain of this process stands."""
        with self._connected() as session:
            found = "SELECT sequence, digest FROM chains WHERE slot = %s"
            row = session.connection.execute(found, (session.slot,)).fetchone()
        if row is None:
            raise StateError(f"the ledger {self.place.name} has lost the chain of {session.replica}")
        return ChainHead(session.replica, int(row[0]), str(row[1]))

    def claim(self, asked: Sequence[SubmittedRecord]) -> list[Claimed]:
        """See ``DecisionLedger``."""
        return self.exchange(asked, ())[0]

    def answer(self, entries: Sequence[ReceiptEntry]) -> list[StoredAnswer | None]:
        """See ``DecisionLedger``."""
        return self.exchange((), entries)[1]

    def exchange(
        self, asked: Sequence[SubmittedRecord], entries: Sequence[ReceiptEntry]
    ) -> tuple[list[Claimed], list[StoredAnswer | None]]:
        """Keep answers, then claim ids. Raises RetryableError if the server takes nothing now."""
        now_ms = self._clock_ms()
        kept: list[StoredAnswer | None] = []
        claimed: list[Claimed] = []
        if entries:
            kept = self._tried(lambda session: keep_all(session, entries, now_ms, self._signer, self._bases))
        if asked:
            try:
                claimed = self._tried(
                    lambda session: claim_all(session, self.place, asked, now_ms, self._claim_ms_max, self._lost)
                )
            except RetryableError:
                if not entries:
                    raise
                claimed = [Claimed("pending")] * len(asked)  # their waiters ask again, and gets the answer
        return claimed, kept

    def release(self, asked: Sequence[SubmittedRecord], *, forget: bool = False) -> None:
        """See ``DecisionLedger``."""
        if not asked:
            return
        how = (
            "DELETE FROM answers AS a USING"
            if forget
            else "UPDATE answers AS a SET slot = NULL, incarnation = NULL FROM"
        )
        given = ([each.stream for each in asked], [indexed(each.record_id) for each in asked])
        mine = f"""{how} unnest(%s::text[], %s::text[]) AS u (s, r) WHERE a.stream = u.s AND a.record_id = u.r
            AND a.body IS NULL AND a.slot = %s AND a.incarnation = %s"""
        with self._connected() as session:
            session.connection.execute(mine.encode(), (*given, session.slot, session.incarnation))

    def decision(self, decision_id: str) -> LedgerAnswer | None:
        """See ``DecisionLedger``."""
        with self._connected() as session:
            return answer_in(session.connection, "decision_id = ?", (indexed(decision_id),))

    def by_record(self, stream: str, record_id: str) -> LedgerAnswer | None:
        """See ``DecisionLedger``."""
        with self._connected() as session:
            return answer_in(session.connection, "stream = ? AND record_id = ?", (stream, indexed(record_id)))

    def receipt(self, decision_id: str) -> dict[str, Any] | None:
        """See ``DecisionLedger``."""
        with self._connected() as session:
            return receipt_in(session.connection, indexed(decision_id))

    def revise(self, decision_id: str, revision: Mapping[str, Any], report: Revision | None = None) -> bool:
        """See ``DecisionLedger``. Of several APIs that report the same revision, one gets that it is new."""
        return self._tried(lambda session: revise_one(session, decision_id, revision, self._clock_ms(), report))

    def unreported(self, most: int) -> list[Revision]:
        """See ``DecisionLedger``."""
        return self._tried(lambda session: take_unreported(session, self.place, most))

    def mark_reported(self, revision_ids: Sequence[str]) -> None:
        """See ``DecisionLedger``."""
        with self._connected() as session:
            drop_unreported(session.connection, revision_ids)

    def counts(self) -> AnswerCounts:
        """See ``DecisionLedger``: of all processes together."""
        with self._connected() as session:
            return counts_in(session.connection)

    def expire(self, before_ms: int, most: int = 500) -> int:
        """See ``DecisionLedger``. One process at a time does it; 0 where another is at it."""
        return self._tried(lambda session: remove_oldest(session, self.place, before_ms, most))

    def newest_ms(self) -> int | None:
        """See ``DecisionLedger``."""
        with self._connected() as session:
            return read_newest_ms(PostgresRows(session.connection))

    def close(self) -> None:
        """Let go of the slot and of the connection; safe to call twice."""
        self._open = False
        session, self._session = self._session, None
        if session is not None:
            with suppress(psycopg.Error, OSError), self._cutter.within(session.connection, END_S):
                let_go(session, self.place)
            with suppress(psycopg.Error, OSError):
                session.connection.close()
        self._cutter.close()

    def _tried(self, call: Callable[[LedgerSession], T]) -> T:
        """``call`` in a transaction, again where another one stood in its way, or its slot or connection was lost."""
        self._lost = None
        for left in reversed(range(TRIES)):
            try:
                with self._connected() as session:
                    return call(session)
            except LostSlotError:  # the server took this process for dead: another has the chain
                self._drop()
                if not left:
                    raise
            except _InTheWayError:
                if not left:
                    raise
            except _LostError as error:
                if not left:
                    raise OutcomeUnknownError(str(error)) from error
                self._failed_s = float("-inf")  # another connection is tried at once, to find out
            except RetryableError as error:
                if self._lost is None:
                    raise
                raise OutcomeUnknownError(str(error)) from error
        raise AssertionError

    @contextmanager
    def _connected(self) -> Iterator[LedgerSession]:
        if not self._open:
            raise StateError(f"the ledger {self.place.name} is not open")
        with translated_errors(self.place, writing=True):
            session = self._session or self._again()
            try:
                with self._cutter.within(session.connection, CALL_S_MAX):
                    yield session
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
                raise _InTheWayError(f"the ledger {self.place.name} takes nothing now: {error}") from error
            except BaseException as error:
                if session.connection.broken or session.connection.closed:
                    self._failed_s = time.monotonic()
                    self._lost = session.owner
                    self._drop()
                    if isinstance(error, psycopg.Error):
                        text = " ".join(str(error).split())
                        raise _LostError(f"the ledger {self.place.name} cannot be written now: {text}") from error
                raise

    def _again(self) -> LedgerSession:
        if time.monotonic() - self._failed_s < AGAIN_S:
            raise psycopg.OperationalError("the connection was lost a moment ago")
        try:
            self._session = open_session(self.place)
        except psycopg.Error:
            self._failed_s = time.monotonic()
            raise
        self._replica = self._session.replica
        return self._session

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(psycopg.Error, OSError):
                session.connection.close()
