"""The file of labels and cases: its tables, and transactions that are whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from crossline.connectors.standing import Standing
from crossline.core.basics.errors import RetryableError, SinkError, StateError
from crossline.serve.cases.values import KeyReusedError

VERSION = 1
APPLICATION_ID = 0x63726C63  # "crlc"
BUSY_S = 5.0
KEPT_MS = 7 * 86_400_000  # for how long a key is known
KEYS_MAX = 200_000

_TABLES = (
    """CREATE TABLE labels (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, record_id TEXT NOT NULL, version INTEGER NOT NULL,
    is_fraud INTEGER NOT NULL CHECK (is_fraud IN (0, 1)), known_ms INTEGER NOT NULL, reason TEXT NOT NULL,
    who TEXT NOT NULL, at_ms INTEGER NOT NULL, case_id TEXT, UNIQUE (stream, record_id, version)) STRICT""",
    # What was said stays: a label is followed by another one, and never changed.
    """CREATE TRIGGER labels_stay BEFORE UPDATE ON labels BEGIN SELECT raise(ABORT, 'labels are only added'); END""",
    """CREATE TRIGGER labels_last BEFORE DELETE ON labels BEGIN SELECT raise(ABORT, 'labels are only added'); END""",
    """CREATE VIEW labels_now AS
    SELECT seq, stream, record_id, version, is_fraud, known_ms, reason, who, at_ms, case_id FROM labels AS l
    WHERE version = (SELECT max(version) FROM labels AS m WHERE m.stream = l.stream AND m.record_id = l.record_id)""",
    """CREATE TABLE cases (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, case_id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, state TEXT NOT NULL,
    assignee TEXT, version INTEGER NOT NULL, opened_ms INTEGER NOT NULL, opened_by TEXT NOT NULL,
    changed_ms INTEGER NOT NULL, changed_by TEXT NOT NULL) STRICT""",
    """CREATE TABLE case_alerts (
    case_seq INTEGER NOT NULL, position INTEGER NOT NULL, alert_id TEXT NOT NULL, stream TEXT, record_id TEXT,
    PRIMARY KEY (case_seq, alert_id)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE case_keys (
    case_seq INTEGER NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (case_seq, field)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE case_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, case_id TEXT NOT NULL, kind TEXT NOT NULL, at_ms INTEGER NOT NULL,
    who TEXT NOT NULL, text TEXT NOT NULL, version INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL)
    STRICT""",
    """CREATE TRIGGER events_stay BEFORE UPDATE ON case_events
    BEGIN SELECT raise(ABORT, 'events are only added'); END""",
    """CREATE TRIGGER events_last BEFORE DELETE ON case_events
    BEGIN SELECT raise(ABORT, 'events are only added'); END""",
    """CREATE TABLE keys (
    who TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, at_ms INTEGER NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (who, key)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX labels_by_known ON labels (known_ms)",
    "CREATE INDEX cases_by_state ON cases (state, seq)",
    "CREATE INDEX cases_by_assignee ON cases (assignee, seq)",
    "CREATE INDEX case_alerts_by_alert ON case_alerts (alert_id)",
    "CREATE INDEX case_alerts_by_record ON case_alerts (stream, record_id)",
    "CREATE INDEX case_keys_by_value ON case_keys (field, value)",
    "CREATE INDEX events_by_case ON case_events (case_id, number)",
    "CREATE INDEX keys_by_time ON keys (at_ms)",
)


class CaseFile:
    """One SQLite file; several processes may have it open. From any thread.

    What a call changed is on the disk when it returns (``synchronous = FULL``).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        self._standing = Standing.of(path)
        try:
            with self._errors():
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                self._make()
        except BaseException:
            self._connection.close()
            raise

    def _make(self) -> None:
        found = self._connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and found != APPLICATION_ID:
            raise StateError(f"{self.path}: found another SQLite file; expected one of labels and cases, or none")
        if version > VERSION:
            raise StateError(
                f"{self.path}: found version {version} of labels and cases; this crossline reads up to {VERSION}: "
                "install the one that wrote it"
            )
        if not tables:
            for each in _TABLES:
                self._connection.execute(each)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done within, or nothing."""
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
    def reading(self) -> Iterator[None]:
        """All that is read within is of one moment."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            with self._errors():
                self._connection.execute("BEGIN")
            try:
                yield
            finally:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """What ``statement`` finds."""
        with self._lock, self._errors():
            try:
                return self._connection.execute(statement, values).fetchall()
            except UnicodeEncodeError:  # half of a character: no text that is stored has one
                return []

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """The number of the row that ``statement`` added, of those with numbers."""
        with self._errors():
            return self._connection.execute(statement, values).lastrowid or 0

    def known_key(self, who: str, key: str | None, asked: Any, now_ms: int) -> Any | None:
        """What was answered to the same request with this ``Idempotency-Key``; None: nothing yet. In a transaction.

        Raises KeyReusedError where it came with another request.
        """
        if key is None:
            return None
        self.run("DELETE FROM keys WHERE at_ms < ?", (now_ms - KEPT_MS,))
        found = self.rows("SELECT digest, result FROM keys WHERE who = ? AND key = ?", (who, key))
        if not found:
            return None
        if found[0]["digest"] != _digest(asked):
            raise KeyReusedError(
                f"Idempotency-Key {key} was sent with another request before; expected a key of its own for each"
            )
        return orjson.loads(found[0]["result"])

    def keep_key(self, who: str, key: str | None, asked: Any, now_ms: int, result: Any) -> None:
        """Note what is answered, in the transaction that does it."""
        if key is None:
            return
        self.run(
            "INSERT INTO keys (who, key, digest, at_ms, result) VALUES (?, ?, ?, ?, ?)",
            (who, key, _digest(asked), now_ms, orjson.dumps(result).decode()),
        )
        over = self.rows("SELECT count(*) AS n FROM keys")[0]["n"] - KEYS_MAX
        if over > 0:
            self.run("DELETE FROM keys WHERE (who, key) IN (SELECT who, key FROM keys ORDER BY at_ms LIMIT ?)", (over,))

    def _check_standing(self) -> None:
        """What is written to a file that was removed would be seen by nobody after the next start."""
        try:
            self._standing.check()
        except SinkError:
            raise RetryableError(
                f"{self.path} was deleted or replaced while the API writes to it; put it back, or start the API again: "
                "it then goes on with what stands there"
            ) from None

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise RetryableError(
                f"{self.path} takes nothing now ({error}); the same request may succeed later"
            ) from error
        except sqlite3.DatabaseError as error:
            raise StateError(f"{self.path}: found no file of labels and cases that can be read ({error})") from error


def _digest(asked: Any) -> str:
    # The standard library writes whatever it is given: numbers of any size, halves of characters.
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
