"""An index of the ids in a file of lines, in a SQLite file beside it rather than in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BUSY_S = 0.5
_FORMAT = 1


class IdIndex:
    """Ids (16 bytes each) of the lines of a file up to ``read_to``, and a ``mark`` of the bytes before that.

    It can be rebuilt from the file at any time, and never runs ahead of it: so it is not synced, and a damaged index is
    deleted. Errors are those of ``sqlite3``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_to = 0
        self.mark = b""
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open the index; a file that is damaged or of another format is created anew."""
        if self._connection is not None:
            return
        try:
            self._open()
        except sqlite3.OperationalError:  # locked, or the disk
            self.close()
            raise
        except (sqlite3.DatabaseError, TypeError):
            self.discard()
            self._open()

    def _open(self) -> None:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        self._connection = connection
        connection.execute("PRAGMA journal_mode = WAL")
        # The log is synced before it goes into the file: a power failure leaves an older index, not a broken one.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -16384")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] > 0:
                raise sqlite3.DatabaseError("another form")
            with self._transaction():
                connection.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
                connection.execute("CREATE TABLE place (read_to INTEGER NOT NULL, mark BLOB NOT NULL)")
                connection.execute("INSERT INTO place VALUES (0, x'')")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
        self.read_to, self.mark = connection.execute("SELECT read_to, mark FROM place").fetchone()

    @contextmanager
    def adding(self) -> Iterator[None]:
        """A transaction: what is added within counts once ``stand_at`` was called and it ended without an error."""
        before = (self.read_to, self.mark)
        try:
            with self._transaction():
                yield
        except BaseException:
            self.read_to, self.mark = before
            raise

    def add(self, ids: Iterable[bytes]) -> list[bool]:
        """For each of ``ids`` whether it is new; one that comes twice is new once."""
        insert = "INSERT INTO ids VALUES (?) ON CONFLICT DO NOTHING"
        execute = self._running().execute
        return [execute(insert, (each,)).rowcount == 1 for each in ids]

    def learn(self, ids: Iterable[bytes]) -> None:
        """Add many ids without a check whether they are new."""
        rows = ((each,) for each in sorted(ids))  # in the order of the tree
        self._running().executemany("INSERT INTO ids VALUES (?) ON CONFLICT DO NOTHING", rows)

    def stand_at(self, read_to: int, mark: bytes) -> None:
        """The file is known up to ``read_to``."""
        self._running().execute("UPDATE place SET read_to = ?, mark = ?", (read_to, mark))
        self.read_to, self.mark = read_to, mark

    def clear(self) -> None:
        """Forget all: the file is another one."""
        with self.adding():
            self._running().execute("DELETE FROM ids")
            self.stand_at(0, b"")

    def discard(self) -> None:
        """Delete the damaged index; it is rebuilt from the file."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.read_to, self.mark = 0, b""

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        connection = self._running()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _running(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("the index is not open")
        return self._connection
