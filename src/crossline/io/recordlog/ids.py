"""Where each record id stands in a log of files: a SQLite file beside it, which can be made again from the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

_BUSY_S = 0.5
_FORMAT = 1
_ID_BYTES = 16

# A file's number, and the byte of it where a line begins.
Spot = tuple[int, int]


def id_digest(record_id: str) -> bytes:
    """By what a record id is known."""
    return blake2b(record_id.encode(), digest_size=_ID_BYTES).digest()


class RecordIds:
    """The ids of all lines up to ``read_to``, each with the place of its first line.

    ``mark``: the bytes before ``read_to``. Some 30 bytes of disk a record, and 16 MB of memory at most. It is written
    after the log is synced, so it never knows more than the log has; what it lacks is read from the log. Errors are
    those of ``sqlite3``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_to: Spot = (1, 0)
        self.mark = b""
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Take up what is there; a file that is damaged, or of another form, is begun anew."""
        try:
            self._open()
        except sqlite3.OperationalError:  # locked, or the disk
            self.close()
            raise
        except (sqlite3.DatabaseError, TypeError):
            self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.close()
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + end).unlink()
        self._open()

    def _open(self) -> None:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        self._connection = connection
        connection.execute("PRAGMA journal_mode = WAL")
        # The journal is synced before it goes into the file: a power failure leaves an older index, not a broken one.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -16384")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise sqlite3.DatabaseError("another form")
            connection.execute("BEGIN")
            connection.execute(
                "CREATE TABLE ids (id BLOB PRIMARY KEY, file INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID"
            )
            connection.execute("CREATE TABLE place (file INTEGER NOT NULL, at INTEGER NOT NULL, mark BLOB NOT NULL)")
            connection.execute("INSERT INTO place VALUES (1, 0, x'')")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.execute("COMMIT")
        file, at, self.mark = connection.execute("SELECT file, at, mark FROM place").fetchone()
        self.read_to = (int(file), int(at))

    def find(self, ids: Iterable[bytes]) -> dict[bytes, Spot]:
        """The positions of the known ``ids``."""
        look = self._running().execute
        found = {each: look("SELECT file, at FROM ids WHERE id = ?", (each,)).fetchone() for each in ids}
        return {each: spot for each, spot in found.items() if spot is not None}

    def add(self, places: Iterable[tuple[bytes, Spot]], read_to: Spot, mark: bytes) -> None:
        """Note these; the log is known up to ``read_to`` then, behind the bytes ``mark``.

        Of an id that is known the first place stays.
        """
        connection = self._running()
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows = ((each, file, at) for each, (file, at) in places)
            connection.executemany("INSERT INTO ids VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)
            connection.execute("UPDATE place SET file = ?, at = ?, mark = ?", (*read_to, mark))
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self.read_to, self.mark = read_to, mark

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _running(self) -> sqlite3.Connection:
        if self._connection is None:
            self.open()
        assert self._connection is not None  # noqa: S101 - it was opened
        return self._connection
