"""Which dead letters were sent again, by whom, and as what; a file of its own beside the stores."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.basics.errors import RetryableError

FILE = "resent.db"
BUSY_S = 5.0
_TABLE = """CREATE TABLE IF NOT EXISTS resent (
    identity TEXT PRIMARY KEY, reason TEXT NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL,
    digest TEXT NOT NULL, raw BLOB NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL, log TEXT, place INTEGER,
    ends TEXT) STRICT, WITHOUT ROWID"""
_ENDS = "ALTER TABLE resent ADD COLUMN ends TEXT"  # which files of before have not
_BY_REASON = "CREATE INDEX IF NOT EXISTS resent_by_reason ON resent (reason) WHERE log IS NOT NULL"
_COLUMNS = "identity, reason, stream, record_id, digest, raw, who, at_ms, log, place, ends"


@dataclass(frozen=True, slots=True)
class Resent:
    """A dead letter that was sent again, or is being sent (``log`` is None then). ``at_ms``: epoch milliseconds.

    ``digest``: of the record as it was sent; ``log``, ``place``: where it stands now. ``ends``: of its topic, by
    partition, where that ended before it was sent, as JSON; None: it goes into no topic.
    """

    identity: str
    reason: str
    stream: str
    record_id: str
    digest: str
    raw: bytes
    who: str
    at_ms: int
    log: str | None = None
    place: int | None = None
    ends: str | None = None


class ResentFile:
    """One SQLite file. From any thread; what a call noted is on the disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(_TABLE)
        if not any(row[1] == "ends" for row in self._connection.execute("PRAGMA table_info(resent)")):
            self._connection.execute(_ENDS)
        self._connection.execute(_BY_REASON)

    def begin(self, wanted: Resent) -> Resent:
        """Note that it is being sent; returns the entry there, which is another one if another request was first.

        Raises RetryableError if the file takes nothing now.
        """
        marks = ", ".join("?" * 11)
        values = [getattr(wanted, name) for name in _COLUMNS.split(", ")]
        with self._lock:
            self._run(f"INSERT INTO resent ({_COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING", values)  # noqa: S608 - our names
            return self._of([wanted.identity])[wanted.identity]

    def done(self, identity: str, log: str, place: int) -> None:
        """It stands in the stream."""
        with self._lock:
            self._run("UPDATE resent SET log = ?, place = ? WHERE identity = ?", [log, place, identity])

    def forget(self, identity: str) -> None:
        """It was not sent after all."""
        with self._lock:
            self._run("DELETE FROM resent WHERE identity = ? AND log IS NULL", [identity])

    def of(self, identities: Collection[str]) -> dict[str, Resent]:
        """Those of these that were sent, or are being sent."""
        with self._lock:
            return self._of(identities)

    def counts(self) -> dict[str, int]:
        """How many were sent, by the reason of the dead letter."""
        with self._lock:
            rows = self._run("SELECT reason, count(*) FROM resent WHERE log IS NOT NULL GROUP BY reason", [])
        return {row[0]: row[1] for row in rows}

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.close()

    def _of(self, identities: Collection[str]) -> dict[str, Resent]:
        marks = ", ".join("?" * len(identities))
        rows = self._run(f"SELECT {_COLUMNS} FROM resent WHERE identity IN ({marks})", list(identities))  # noqa: S608 - marks
        return {row[0]: Resent(*row) for row in rows}

    def _run(self, statement: str, values: list[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise RetryableError(
                f"{self._path} takes nothing now ({error}); the same request may succeed later"
            ) from error
