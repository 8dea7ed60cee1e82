"""The token store in a SQLite file, for the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from crossline.basics.errors import RetryableError, StateError
from crossline.io.private_files import check_private
from crossline.io.tokens.master_key import MasterKey
from crossline.io.tokens.token_store import KeyRows, TokenStore

_VERSION = 1
_BUSY_S = 10.0
_IDS_MAX = 500  # of one query
_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS keys (person BLOB PRIMARY KEY, wrapped BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS destroyed (seq INTEGER PRIMARY KEY, person BLOB NOT NULL, at_ms INTEGER NOT NULL)",
)


class SqliteTokenStore(TokenStore):
    """Keys in a file that its owner alone may read.

    Args:
        path: The file; made where there is none.
        master: The master key.
    """

    def __init__(self, path: Path, master: MasterKey) -> None:
        super().__init__(master)
        self.path = path

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    def open(self) -> KeyRows:
        """A connection. Raises StateError where the file is no store, or others may read it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        check_private(self.path)
        return _SqliteRows(self.path, self.master)


class _SqliteRows(KeyRows):
    def __init__(self, path: Path, master: MasterKey) -> None:
        self._path = path
        with self._reported():
            db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._db = db
            try:
                db.execute("PRAGMA secure_delete = ON")
                db.execute("PRAGMA journal_mode = WAL")
                # A key that a power cut takes away is one whose tokens nobody makes again.
                db.execute("PRAGMA synchronous = FULL")
                self._begin(master)
            except BaseException:
                db.close()
                raise

    def _begin(self, master: MasterKey) -> None:
        with self._writing():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in {0, _VERSION}:
                raise StateError(f"{self._path}: found a token store of version {version}; expected {_VERSION}")
            for each in _TABLES:
                self._db.execute(each)
            self._db.execute(f"PRAGMA user_version = {_VERSION}")
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('master', ?)", (master.check,))

    def generation(self) -> int:
        with self._reported():
            return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM destroyed").fetchone()[0])

    def find(self, person_ids: Sequence[bytes]) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._reported():
            for start in range(0, len(person_ids), _IDS_MAX):
                some = person_ids[start : start + _IDS_MAX]
                marks = ",".join("?" * len(some))
                found.update(self._db.execute(f"SELECT person, wrapped FROM keys WHERE person IN ({marks})", some))  # noqa: S608 - marks alone
        return found

    def add(self, rows: Sequence[tuple[bytes, bytes]], master: bytes) -> bool:
        with self._reported(), self._writing():
            if self._master() != master:
                return False
            self._db.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", rows)
            return True

    def meta(self) -> Mapping[str, bytes]:
        with self._reported():
            return dict(self._db.execute("SELECT name, value FROM meta"))

    def change_meta(self, master: bytes, put: Mapping[str, bytes], drop: Sequence[str] = ()) -> bool:
        with self._reported(), self._writing():
            if self._master() != master:
                return False
            self._db.executemany("DELETE FROM meta WHERE name = ?", [(each,) for each in drop])
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", put.items())
            return True

    def page(self, after: bytes, count: int) -> Sequence[tuple[bytes, bytes]]:
        with self._reported():
            query = "SELECT person, wrapped FROM keys WHERE person > ? ORDER BY person LIMIT ?"
            return self._db.execute(query, (after, count)).fetchall()

    def replace(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        with self._reported(), self._writing():
            changes = [(after, person, before) for person, before, after in rows]
            self._db.executemany("UPDATE keys SET wrapped = ? WHERE person = ? AND wrapped = ?", changes)

    def scour(self) -> None:
        with self._reported():
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise RetryableError(f"{self._path}: its log of changes is in use, and has what was replaced: try again")

    def destroy(self, person_id: bytes, now_ms: int) -> bool:
        with self._reported():
            with self._writing():
                # Overwritten, then deleted: secure_delete fills its place with zeros.
                self._db.execute("UPDATE keys SET wrapped = zeroblob(length(wrapped)) WHERE person = ?", (person_id,))
                there = self._db.execute("DELETE FROM keys WHERE person = ?", (person_id,)).rowcount > 0
                # Noted though there was none: a process may have read it before an earlier try, which was cut off.
                self._db.execute("INSERT INTO destroyed (person, at_ms) VALUES (?, ?)", (person_id, now_ms))
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise RetryableError(
                f"{self._path}: the key is destroyed, but its log of changes is in use and may still have it: try again"
            )
        return there

    def close(self) -> None:
        self._db.close()

    def _master(self) -> bytes:
        return bytes(self._db.execute("SELECT value FROM meta WHERE name = 'master'").fetchone()[0])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise RetryableError(f"the token store {self._path} cannot be read or written now: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StateError(f"{self._path}: found what is no token store ({error}); expected one") from None
