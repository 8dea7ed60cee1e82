"""The file of labels and cases: its tables, and transactions that are whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import RetryableError, SinkError, StateError
from crossline.io.stores.open_file import OpenFile
from crossline.serve.cases.schema import TABLES, TO_VERSION_2, TO_VERSION_6
from crossline.serve.cases.statistics.schema import TO_VERSION_3, TO_VERSION_5
from crossline.serve.cases.suppressions.schema import TO_VERSION_4
from crossline.serve.cases.values import KeyReusedError

VERSION = 6
APPLICATION_ID = 0x63726C63  # "crlc"
BUSY_S = 5.0
KEPT_MS = 7 * 86_400_000  # for how long a key is known
KEYS_MAX = 200_000
CACHE_KIB = 65_536
_TOKEN_BYTES = 8


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
        self._standing = OpenFile.of(path)
        try:
            with self._errors():
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            with self.transaction():
                self._make()
                # The words of the search's index, to look for those that begin with something.
                self._connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, texts, 'row')")
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
            for each in TABLES:
                self._connection.execute(each)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if version < VERSION:  # of a new file it is 0: it becomes what an old one becomes
            steps = ((2, TO_VERSION_2), (3, TO_VERSION_3), (4, TO_VERSION_4), (5, TO_VERSION_5), (6, TO_VERSION_6))
            for number, statements in steps:
                for each in statements if version < number else ():
                    self._connection.execute(each)
            if not tables:
                identity = (time.time_ns() // 1_000_000, secrets.token_hex(_TOKEN_BYTES))
                self._connection.execute("INSERT INTO identity (made_ms, token) VALUES (?, ?)", identity)
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

    def rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """What ``statement`` finds."""
        with self._lock:
            try:
                return self._connection.execute(statement, values).fetchall()
            except UnicodeEncodeError:  # half of a character: no text that is stored has one
                return []
            except sqlite3.DatabaseError as error:
                raise self._error(error) from error

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """The number of the row that ``statement`` added, of those with numbers."""
        try:
            return self._connection.execute(statement, values).lastrowid or 0
        except sqlite3.DatabaseError as error:
            raise self._error(error) from error

    def known_key(self, who: str, key: str | None, asked: Any, now_ms: int) -> Any | None:
        """What was answered to the same request with this ``Idempotency-Key``; None: nothing yet. In a transaction.

        Raises KeyReusedError if it came with another request.
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
        """Writes to a file that was removed would be lost at the next start."""
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
        except sqlite3.DatabaseError as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.DatabaseError) -> RetryableError | StateError:
        if isinstance(error, sqlite3.OperationalError):
            return RetryableError(f"{self.path} takes nothing now ({error}); the same request may succeed later")
        return StateError(f"{self.path}: found no file of labels and cases that can be read ({error})")


def _digest(asked: Any) -> str:
    # The standard library writes whatever it is given: numbers of any size, halves of characters.
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
