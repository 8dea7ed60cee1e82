"""The revisions that are yet to be delivered, in one SQLite file: they survive a restart, and are bounded."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from crossline.basics.errors import PermanentError, RetryableError, SinkError, StateError
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.stores.open_file import OpenFile
from crossline.serve.revisions.values import FailedDelivery, Revision, Status

VERSION = 1
APPLICATION_ID = 0x63726C72  # "crlr"
BUSY_S = 5.0
KEPT_MS = 7 * 86_400_000  # for how long it is known what was delivered
KEPT_MAX = 1_000_000  # so that the file does not grow for ever
PRUNED_MAX = 10_000  # rows that one call removes

_TABLES = (
    """CREATE TABLE revisions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, address TEXT NOT NULL, revision_id TEXT NOT NULL, stream TEXT NOT NULL,
    record_id TEXT NOT NULL, body BLOB, put_ms INTEGER NOT NULL, status TEXT NOT NULL, attempts INTEGER NOT NULL,
    why TEXT NOT NULL, done_ms INTEGER, UNIQUE (address, revision_id)) STRICT""",
    "CREATE INDEX revisions_by_status ON revisions (address, status, seq)",
    "CREATE INDEX revisions_by_end ON revisions (done_ms) WHERE done_ms IS NOT NULL",
)

_PUT = """
INSERT INTO revisions (address, revision_id, stream, record_id, body, put_ms, status, attempts, why)
VALUES (?, ?, ?, ?, ?, ?, 'pending', 0, '') ON CONFLICT (address, revision_id) DO NOTHING"""


class QueueFullError(RetryableError):
    """An address has not accepted its revisions for so long that no more may wait."""


@dataclass(frozen=True, slots=True)
class QueuedRevision:
    """A revision that waits for an address."""

    seq: int
    revision_id: str
    body: bytes
    put_ms: int
    attempts: int


class RevisionQueue:
    """Revisions by address (a name that is no secret). One process has it open; from any thread.

    What was put is on the disk when ``put`` returns. Delivered ids are known for seven days (the last million of them),
    so that one that is put again is not delivered again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._locked = _locked(path.with_name(f"{path.name}.lock"))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            # Deliveries are noted without a sync each: a power failure forgets some, and they are repeated.
            self._marks = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._standing = OpenFile.of(path)
            try:
                with self._errors():
                    self._connection.execute("PRAGMA journal_mode = WAL")
                    self._connection.execute("PRAGMA synchronous = FULL")
                    self._marks.execute("PRAGMA synchronous = NORMAL")
                with self._transaction():
                    self._make()
                with self._errors():
                    rows = self._connection.execute(
                        "SELECT address, count(*) FROM revisions WHERE status = 'pending' GROUP BY address"
                    ).fetchall()
            except BaseException:
                self._marks.close()
                self._connection.close()
                raise
        except BaseException:
            os.close(self._locked)
            raise
        self._pending: dict[str, int] = dict(rows)
        self._closed = False

    def put(
        self, bounds: Mapping[str, int], revisions: Sequence[Revision], now_ms: int
    ) -> list[tuple[str, int, Revision]]:
        """Keep ``revisions`` for each address of ``bounds``: all or nothing.

        ``bounds``: by address, how many may wait for it. Those that are new: address, number, revision, in order.

        Raises QueueFullError if more would wait than may.
        """
        fresh: list[tuple[str, int, Revision]] = []
        bodies = [(each, json_bytes(each.body)) for each in revisions]
        with self._lock:
            with self._transaction():
                self._prune(now_ms)
                for address, most in bounds.items():
                    count = self._pending.get(address, 0)
                    for each, body in bodies:
                        found = self._connection.execute(
                            _PUT,
                            (address, each.revision_id, each.stream, each.record_id, body, now_ms),
                        )
                        if not found.rowcount:
                            continue
                        count += 1
                        if count > most:
                            raise QueueFullError(
                                f"{most:,} revisions wait for {address}, and no more may (pending_max): it has not "
                                "accepted them; see that it answers"
                            )
                        fresh.append((address, found.lastrowid or 0, each))
            for address, _, _ in fresh:
                self._pending[address] = self._pending.get(address, 0) + 1
        return fresh

    def waiting(self, address: str) -> list[tuple[int, str, str, int]]:
        """Number, stream, record and time of what waits for ``address``, in its order."""
        with self._lock, self._errors():
            return self._connection.execute(
                "SELECT seq, stream, record_id, put_ms FROM revisions "
                "WHERE address = ? AND status = 'pending' ORDER BY seq",
                (address,),
            ).fetchall()

    def load(self, seq: int) -> QueuedRevision:
        """The revision of that number, which waits."""
        with self._lock, self._errors():
            row = self._connection.execute(
                "SELECT seq, revision_id, body, put_ms, attempts FROM revisions WHERE seq = ? AND status = 'pending'",
                (seq,),
            ).fetchone()
        if row is None:
            raise StateError(f"{self.path}: found no revision {seq} that waits; another program has changed the file")
        return QueuedRevision(*row)

    def refused(self, seq: int, why: str) -> None:
        """Count a refusal."""
        with self._lock, self._errors():
            self._marks.execute(
                "UPDATE revisions SET attempts = attempts + 1, why = ? WHERE seq = ?", (_storable(why), seq)
            )

    def done(self, address: str, seq: int, status: Status, now_ms: int, why: str = "") -> None:
        """It waits no more. A delivered one loses its body; any other keeps it, for inspection."""
        body = ", body = NULL" if status == "sent" else ""
        with self._lock:
            with self._errors():
                changed = self._marks.execute(
                    f"UPDATE revisions SET status = ?, done_ms = ?, why = ?{body} WHERE seq = ? AND status = 'pending'",  # noqa: S608
                    (status, now_ms, _storable(why), seq),
                ).rowcount
            self._pending[address] = self._pending.get(address, 0) - changed

    def expire(self, address: str, seqs: Sequence[int], now_ms: int, why: str) -> None:
        """Those of ``seqs`` wait no more: all or none."""
        with self._lock:
            with self._transaction():
                self._connection.executemany(
                    "UPDATE revisions SET status = 'expired', done_ms = ?, why = ? "
                    "WHERE seq = ? AND status = 'pending'",
                    [(now_ms, _storable(why), seq) for seq in seqs],
                )
            self._pending[address] = self._pending.get(address, 0) - len(seqs)

    def pending(self, address: str) -> int:
        """How many wait."""
        with self._lock:
            return self._pending.get(address, 0)

    def addresses(self) -> list[str]:
        """Those that something waits for."""
        with self._lock:
            return [name for name, count in self._pending.items() if count]

    def oldest_ms(self, address: str) -> int | None:
        """Since when the oldest one waits."""
        with self._lock, self._errors():
            row = self._connection.execute(
                "SELECT put_ms FROM revisions WHERE address = ? AND status = 'pending' ORDER BY seq LIMIT 1", (address,)
            ).fetchone()
        return None if row is None else row[0]

    def failed(self, limit: int) -> list[FailedDelivery]:
        """What was parked or has expired, the latest first."""
        with self._lock, self._errors():
            rows = self._connection.execute(
                "SELECT address, revision_id, stream, record_id, status, why, attempts, done_ms FROM revisions "
                "WHERE status IN ('parked', 'expired') ORDER BY done_ms DESC, seq DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return [FailedDelivery(*row) for row in rows]

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._marks.close()
                self._connection.close()
                os.close(self._locked)

    def _make(self) -> None:
        found = self._connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (found != APPLICATION_ID or version != VERSION):
            raise StateError(
                f"{self.path}: found a SQLite file of another kind or version; expected revisions in version {VERSION}"
            )
        if not tables:
            for each in _TABLES:
                self._connection.execute(each)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _prune(self, now_ms: int) -> None:
        self._connection.execute(
            "DELETE FROM revisions WHERE seq IN (SELECT seq FROM revisions WHERE done_ms < ? LIMIT ?)",
            (now_ms - KEPT_MS, PRUNED_MAX),
        )
        self._connection.execute(
            "DELETE FROM revisions WHERE seq IN (SELECT seq FROM revisions WHERE done_ms IS NOT NULL "
            "AND seq <= (SELECT max(seq) FROM revisions) - ? LIMIT ?)",
            (KEPT_MAX, PRUNED_MAX),
        )

    def _check_standing(self) -> None:
        """Writes to a file that was removed would be lost at the next start."""
        try:
            self._standing.check()
        except SinkError:
            raise RetryableError(
                f"{self.path} was deleted or replaced while the API writes to it; put it back, or start the API again: "
                "it then goes on with what stands there"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._check_standing()
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise RetryableError(f"{self.path} takes nothing now ({error}); it is tried again") from error
        except sqlite3.DatabaseError as error:
            raise StateError(f"{self.path}: found no queue of revisions that can be read ({error})") from error


def _locked(path: Path) -> int:
    """A descriptor that holds the lock: two processes would deliver revisions twice, and out of order."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise PermanentError(
            f"{path} is locked: another process sends the revisions of this folder; one crossline serve per serve.path"
        ) from error
    return descriptor


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
