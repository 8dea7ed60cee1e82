"""Revisions of answers in the order in which they were found, for who listens to events and comes again later."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from crossline.basics.errors import RetryableError, StateError
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.logs import get_logger
from crossline.serve.revisions.values import Revision

log = get_logger(__name__)

FILE = "revised.db"
KEPT_MAX = 100_000
LOOK_S = 0.5  # for those that another process of this folder has put there
AT_ONCE = 200
BUSY_S = 5.0
LIFE_BYTES = 8

_TABLE = (
    "CREATE TABLE IF NOT EXISTS revised "
    "(seq INTEGER PRIMARY KEY AUTOINCREMENT, revision_id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)"
)
_LIFE = "CREATE TABLE IF NOT EXISTS life (number INTEGER PRIMARY KEY CHECK (number = 1), name TEXT NOT NULL)"
_PUT = "INSERT INTO revised (revision_id, body) VALUES (?, ?) ON CONFLICT (revision_id) DO NOTHING"


class RevisedGoneError(Exception):
    """What came after a number is not kept any more, or never was."""


class NumberedLog:
    """The last 100,000 of what happened, numbered from 1 on, in one SQLite file; from any thread.

    What was put is on the disk when it returns, once by its id; numbers are never given twice. ``life`` is a name
    that no other file has: the numbers of two files are the same.
    """

    what = "events"

    def __init__(self, path: Path, kept_max: int = KEPT_MAX) -> None:
        self.path = path
        self._kept_max = kept_max
        self._news = asyncio.Event()
        self._followers = 0
        self._watching: asyncio.Task[None] | None = None
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_TABLE)
            connection.execute(_LIFE)
            with connection:
                made = "INSERT INTO life VALUES (1, ?) ON CONFLICT DO NOTHING"
                connection.execute(made, (secrets.token_hex(LIFE_BYTES),))
            self.life = str(connection.execute("SELECT name FROM life").fetchone()[0])

    def keep(self, revisions: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Keep them, each with its id; those that are there stay where they are.

        Raises RetryableError if the disk takes nothing, StateError where the file is damaged.
        """
        rows = [(name, json_bytes(dict(body))) for name, body in revisions]
        with self._connected() as connection, connection:
            connection.executemany(_PUT, rows)
            connection.execute("DELETE FROM revised WHERE seq <= (SELECT max(seq) FROM revised) - ?", (self._kept_max,))

    def notify(self) -> None:
        """Those who follow look now; called in their event loop."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def bodies(self) -> list[bytes]:
        """All that are kept, the oldest first; raises as ``last``."""
        with self._connected() as connection:
            return [bytes(row[0]) for row in connection.execute("SELECT body FROM revised ORDER BY seq")]

    def last(self) -> int:
        """The number of the newest; 0: there was none. Raises RetryableError if the file cannot be read."""
        with self._connected() as connection:
            found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'revised'").fetchone()
            return 0 if found is None else int(found[0])

    def behind(self, number: int) -> list[tuple[int, bytes]]:
        """The next ones behind ``number``, at most 200, with their numbers; raises as ``follow``."""
        with self._connected() as connection:
            rows = connection.execute("SELECT seq, body FROM revised WHERE seq > ? LIMIT ?", (number, AT_ONCE))
            found = [(int(seq), bytes(body)) for seq, body in rows.fetchall()]
            first = connection.execute("SELECT min(seq) FROM revised").fetchone()[0]
        if (first is not None and number + 1 < first) or (not found and number > self.last()):
            raise RevisedGoneError(f"{self.what} behind number {number} are not kept any more")
        return found

    async def follow(self, number: int) -> AsyncIterator[tuple[int, bytes]]:
        """Those behind ``number``, then each as it comes; without an end.

        Raises RevisedGoneError if some of them are not kept any more, RetryableError where the file cannot be read.
        """
        self._followers += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            while True:
                news = self._news
                found = await asyncio.to_thread(self.behind, number)
                for each in found:
                    yield each
                    number = each[0]
                if not found:
                    await news.wait()
        finally:
            self._followers -= 1
            if not self._followers and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self) -> None:
        """One who looks at the file for all who follow: another process of this folder may put revisions there."""
        last = -1
        while True:
            try:
                found = await asyncio.to_thread(self.last)
            except (RetryableError, StateError) as error:
                log.warning("what happened cannot be looked for now", what=self.what, error=str(error))
                found = last
            if found != last:
                last = found
                self.notify()
            await asyncio.sleep(LOOK_S)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.OperationalError as error:
            raise RetryableError(f"{self.path} cannot be read or written now: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StateError(
                f"{self.path}: found no list of {self.what} ({error}); move it away: it begins anew, and who listens "
                "to events gets a gap event"
            ) from error


class RevisedLog(NumberedLog):
    """Revisions of answers."""

    what = "revisions of answers"

    def put(self, revisions: Sequence[Revision]) -> None:
        """Keep them; raises as ``keep``."""
        self.keep((each.revision_id, each.body) for each in revisions)
