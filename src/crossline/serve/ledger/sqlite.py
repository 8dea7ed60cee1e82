"""A ledger in one SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from crossline.basics.errors import StateError
from crossline.io.sinks.base import wall_clock_ms
from crossline.io.stores.open_file import OpenFile
from crossline.serve.decisions.values import SubmittedRecord
from crossline.serve.ledger.base import AnswerCounts, Claimed, LedgerAnswer, StoredAnswer
from crossline.serve.ledger.queries import add_count, read_answer, read_counts, read_newest_ms, read_receipt
from crossline.serve.ledger.receipt_storage import keep_receipt, remove_oldest
from crossline.serve.ledger.receipts import (
    BEGINNING,
    BasisTexts,
    ChainHead,
    ReceiptEntry,
    answer_of,
    canonical,
    digest_of,
    receipt_body,
)
from crossline.serve.ledger.schema import ensure_schema, reported, transaction
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.slots import LedgerSlots, process_text
from crossline.serve.revisions.values import Revision

# How long one call waits for another process that writes.
BUSY_MS = 2_000
# A claim of a process that lives, and that it did not answer in this time, is given to the next that asks. Longer than
# any request may take: nothing breaks where it is not, since the first answer that is kept is the answer.
CLAIM_MS_MAX = 60_000

_CLAIM = """INSERT INTO answers (stream, record_id, body_digest, slot, incarnation, claimed_ms)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (stream, record_id) DO NOTHING"""
_FOUND = """SELECT body_digest, slot, incarnation, claimed_ms, decision_id, body FROM answers
    WHERE stream = ? AND record_id = ?"""
_TAKEN = "UPDATE answers SET slot = ?, incarnation = ?, claimed_ms = ? WHERE stream = ? AND record_id = ?"
_ANSWERED = """INSERT INTO answers (stream, record_id, body_digest, slot, incarnation, claimed_ms, decision_id,
        answered, decision, body, answered_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, record_id) DO UPDATE SET
        decision_id = excluded.decision_id, answered = excluded.answered, decision = excluded.decision,
        body = excluded.body, answered_ms = excluded.answered_ms"""
_MINE = "stream = ? AND record_id = ? AND body IS NULL AND slot = ? AND incarnation = ?"
# Several processes that make a new file at once: SQLite then refuses some at once, whatever they would wait for.
_PATIENTLY = Retrying(
    retry=retry_if_exception_message(match=".*locked"), stop=stop_after_delay(10), wait=wait_fixed(0.05), reraise=True
)


class SqliteLedger:
    """See ``DecisionLedger``. Calls come from one thread at a time.

    Guarantee: what ``answer`` returns is on the disk (``synchronous`` full). Of an id one answer is ever kept, the
    first; a second caller is given that one. A claim is seen by all processes at once and outlives a kill; it is
    not synced, since of what a power cut takes nothing was answered yet.

    A process that is killed loses its claims to the next caller, and its chain to the process that takes its slot.
    That one goes on where the chain ended: the sequence has no gap, ``previous`` names the last receipt that was kept.
    """

    def __init__(
        self,
        path: str | Path,
        signer: Signer | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        claim_ms_max: int = CLAIM_MS_MAX,
    ) -> None:
        """Open the ledger at ``path``, made where there is none, and take a slot.

        Raises StateError if the file is something else, RetryableError where it takes nothing now.
        """
        self.path = Path(path)
        self._signer = signer
        self._clock_ms = clock_ms
        self._claim_ms_max = claim_ms_max
        self._texts = BasisTexts()
        self._slots = LedgerSlots(self.path)
        with reported(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            self._slot = self._slots.take()
            try:
                self._connection = _PATIENTLY(self._opened)
            except BaseException:
                self._slot.release()
                raise
        self._open = True

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._full = True
            with transaction(connection):
                ledger_id = ensure_schema(connection, self.path)
                number = self._slot.number
                self._replica = f"{ledger_id}-{number}"
                connection.execute(
                    """INSERT INTO chains VALUES (?, ?, 1, ?, 0, ?, 0, ?) ON CONFLICT (slot) DO UPDATE SET
                    incarnation = incarnation + 1, process = excluded.process""",
                    (number, self._replica, process_text(), BEGINNING, BEGINNING),
                )
                row = connection.execute("SELECT incarnation FROM chains WHERE slot = ?", (number,)).fetchone()
            self._owner = (number, int(row[0]))
            self._standing = OpenFile.of(self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def replica(self) -> str:
        """The name of the chain that this process writes."""
        return self._replica

    @property
    def link(self) -> ChainHead:
        """Where the chain of this process stands."""
        with reported(self.path):
            return self._link(self._checked())

    def claim(self, asked: Sequence[SubmittedRecord]) -> list[Claimed]:
        """See ``DecisionLedger``."""
        return self.exchange(asked, ())[0]

    def answer(self, entries: Sequence[ReceiptEntry]) -> list[StoredAnswer | None]:
        """See ``DecisionLedger``. None: the id was given up meanwhile, and belongs to another body: a conflict."""
        return self.exchange((), entries)[1]

    def exchange(
        self, asked: Sequence[SubmittedRecord], entries: Sequence[ReceiptEntry]
    ) -> tuple[list[Claimed], list[StoredAnswer | None]]:
        """Keep answers, then claim ids, in one transaction: what a group commit is made of. Raises as the two."""
        with reported(self.path):
            connection, now_ms = self._checked(), self._clock_ms()
            self._sync(connection, full=bool(entries))
            with transaction(connection):
                kept = self._keep(connection, entries, now_ms) if entries else []
                claimed = [self._claimed(connection, each, now_ms) for each in asked]
        self._standing.check()
        return claimed, kept

    def _sync(self, connection: sqlite3.Connection, *, full: bool) -> None:
        """Whether the next transactions are synced. A sync covers all earlier ones, of any process."""
        if full is not self._full:
            connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full

    def _claimed(self, connection: sqlite3.Connection, asked: SubmittedRecord, now_ms: int) -> Claimed:
        key = (asked.stream, asked.record_id)
        if connection.execute(_CLAIM, (*key, asked.digest, *self._owner, now_ms)).rowcount:
            return Claimed("fresh")
        digest, slot, incarnation, claimed_ms, decision_id, body = connection.execute(_FOUND, key).fetchone()
        if digest != asked.digest:
            return Claimed("differs", decision_id=decision_id)
        if body is not None:
            return Claimed("answered", body, decision_id)
        if abs(now_ms - claimed_ms) < self._claim_ms_max and self._alive(connection, slot, incarnation):
            return Claimed("pending")
        connection.execute(_TAKEN, (*self._owner, now_ms, *key))
        return Claimed("fresh", again=True)

    def _alive(self, connection: sqlite3.Connection, slot: int | None, incarnation: int) -> bool:
        """Whether the process that made a claim lives."""
        if (slot, incarnation) == self._owner:
            return True
        if slot is None or slot == self._owner[0]:
            return False
        row = connection.execute("SELECT incarnation FROM chains WHERE slot = ?", (slot,)).fetchone()
        return row is not None and row[0] == incarnation and self._slots.held(slot)

    def _keep(
        self, connection: sqlite3.Connection, entries: Sequence[ReceiptEntry], now_ms: int
    ) -> list[StoredAnswer | None]:
        link = self._link(connection)
        kept: list[StoredAnswer | None] = []
        for entry in entries:
            asked, decision = entry.asked, entry.decision
            key = (asked.stream, asked.record_id)
            row = connection.execute(_FOUND, key).fetchone()
            if row is not None and row[0] != asked.digest:
                kept.append(None)
                continue
            if row is not None and row[5] is not None:
                kept.append(StoredAnswer(row[5], row[4], orjson.loads(row[5])["receipt"], first=False))
                continue
            basis = self._texts.of(entry.basis)
            receipt = receipt_body(entry, link, self._signer.key_id if self._signer else None, basis.written)
            digest = digest_of(receipt)
            decision_id, body = str(decision["decision_id"]), answer_of(decision, digest)
            columns = (decision_id, str(decision["answered"]), str(decision["decision"]), body, now_ms)
            connection.execute(_ANSWERED, (*key, asked.digest, *self._owner, now_ms, *columns))
            signature = self._signer.sign(digest) if self._signer else None
            whole = {**receipt, "digest": digest, "signature": signature}
            keep_receipt(connection, decision_id, whole, basis, now_ms)
            add_count(connection, "answered", str(decision["answered"]))
            link = ChainHead(link.replica, link.sequence + 1, digest)
            kept.append(StoredAnswer(body, decision_id, digest))
        connection.execute(
            "UPDATE chains SET sequence = ?, digest = ? WHERE slot = ?", (link.sequence, link.digest, self._owner[0])
        )
        return kept

    def release(self, asked: Sequence[SubmittedRecord], *, forget: bool = False) -> None:
        """Give up claims that will not be answered here. What was answered stays.

        The id stays with its body, since the record may be in the stream: the same record is then fresh, another one
        differs. ``forget``: nothing was put into the stream; the id is as if it had not been requested.
        """
        rows = [(each.stream, each.record_id, *self._owner) for each in asked]
        with reported(self.path), transaction(self._checked()) as connection:
            how = "DELETE FROM answers" if forget else "UPDATE answers SET slot = NULL, incarnation = NULL"
            connection.executemany(f"{how} WHERE {_MINE}", rows)

    def decision(self, decision_id: str) -> LedgerAnswer | None:
        """See ``DecisionLedger``."""
        with reported(self.path):
            return read_answer(self._checked(), "decision_id = ?", (decision_id,))

    def by_record(self, stream: str, record_id: str) -> LedgerAnswer | None:
        """See ``DecisionLedger``."""
        with reported(self.path):
            return read_answer(self._checked(), "stream = ? AND record_id = ?", (stream, record_id))

    def receipt(self, decision_id: str) -> dict[str, Any] | None:
        """See ``DecisionLedger``."""
        with reported(self.path):
            return read_receipt(self._checked(), decision_id)

    def revise(self, decision_id: str, revision: Mapping[str, Any], report: Revision | None = None) -> bool:  # noqa: ARG002 - the caller has queued it
        """See ``DecisionLedger``. ``revision``: a decision as the stream wrote it, known by its ``decision_id``.

        False as well where no answer has that id: it is not of this ledger, or retention has removed it.
        """
        return self.revise_all([(decision_id, revision)]) == 1

    def unreported(self, most: int) -> list[Revision]:  # noqa: ARG002 - as above
        """See ``DecisionLedger``: none."""
        return []

    def mark_reported(self, revision_ids: Sequence[str]) -> None:
        """See ``DecisionLedger``: nothing is kept of them."""

    def revise_all(self, revisions: Sequence[tuple[str, Mapping[str, Any]]]) -> int:
        """As ``revise``, many in one transaction; how many were new."""
        new = 0
        with reported(self.path), self._synced() as connection:
            for decision_id, revision in revisions:
                new += self._revised(connection, decision_id, revision)
        return new

    def _revised(self, connection: sqlite3.Connection, decision_id: str, revision: Mapping[str, Any]) -> bool:
        found = "SELECT answered, decision FROM answers WHERE decision_id = ? AND body IS NOT NULL"
        row = connection.execute(found, (decision_id,)).fetchone()
        if row is None:
            return False
        answered, decision = row
        latest = "SELECT body FROM revisions WHERE decision_id = ? ORDER BY revision DESC, at_ms DESC LIMIT 1"
        before = connection.execute(latest, (decision_id,)).fetchone()
        made = (decision_id, str(revision["decision_id"]), int(revision.get("revision", 0)), canonical(dict(revision)))
        added = "INSERT INTO revisions VALUES (?, ?, ?, ?, ?) ON CONFLICT (decision_id, revision_id) DO NOTHING"
        if not connection.execute(added, (*made, self._clock_ms())).rowcount:
            return False
        if before is None:
            add_count(connection, "revised", answered)
        after = orjson.loads(connection.execute(latest, (decision_id,)).fetchone()[0])["decision"]
        was = before is not None and orjson.loads(before[0])["decision"] != decision
        add_count(connection, "differs", answered, int(after != decision) - int(was))
        return True

    def counts(self) -> AnswerCounts:
        """See ``DecisionLedger``."""
        with reported(self.path):
            return read_counts(self._checked())

    def expire(self, before_ms: int, most: int = 500) -> int:
        """See ``DecisionLedger``. An id that is gone is not known any more: asked again, it is answered anew.

        Receipts go from the beginning of their chains on, so that each chain stays whole; claims without an answer go
        with their age.
        """
        with reported(self.path), self._synced() as connection:
            return remove_oldest(connection, before_ms, most)

    def newest_ms(self) -> int | None:
        """See ``DecisionLedger``."""
        with reported(self.path):
            return read_newest_ms(self._checked())

    def close(self) -> None:
        """Let go of the file and of the slot; safe to call twice."""
        if self._open:
            self._open = False
            try:
                self._connection.close()
            finally:
                self._slot.release()

    @contextmanager
    def _synced(self) -> Iterator[sqlite3.Connection]:
        connection = self._checked()
        self._sync(connection, full=True)
        with transaction(connection):
            yield connection

    def _link(self, connection: sqlite3.Connection) -> ChainHead:
        row = connection.execute("SELECT sequence, digest FROM chains WHERE slot = ?", (self._owner[0],)).fetchone()
        return ChainHead(self._replica, row[0], row[1])

    def _checked(self) -> sqlite3.Connection:
        if not self._open:
            raise StateError(f"the ledger {self.path} is not open")
        self._standing.check()
        return self._connection
