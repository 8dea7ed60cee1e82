"""Records that were answered before their stream acknowledged them: kept on disk until it does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from crossline.basics.errors import RetryableError
from crossline.logs import get_logger
from crossline.serve.decisions.values import LogPosition, RecordLog, SubmittedRecord

PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
AT_ONCE = 500

log = get_logger(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS outbox (
    place INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    record_id TEXT NOT NULL,
    raw BLOB NOT NULL,
    digest TEXT NOT NULL,
    ingest_ms INTEGER NOT NULL,
    UNIQUE (stream, record_id)
)
"""


class SqliteOutbox:
    """An outbox in a file; each change is synced before the call returns. Raises RetryableError if it cannot be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connect().close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=1.0)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(_TABLE)
        return connection

    async def put(self, asked: Sequence[SubmittedRecord]) -> None:
        """Keep them; those that are there already stay as they are, and a parked one is sent again."""
        rows = [(each.stream, each.record_id, each.raw, each.digest, each.ingest_ms) for each in asked]
        await self._do(
            "INSERT INTO outbox (stream, record_id, raw, digest, ingest_ms) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (stream, record_id) DO UPDATE SET place = -place, raw = excluded.raw, "
            "digest = excluded.digest, ingest_ms = excluded.ingest_ms WHERE place < 0",
            rows,
        )

    async def done(self, asked: SubmittedRecord) -> None:
        """Its stream has it."""
        await self._do("DELETE FROM outbox WHERE stream = ? AND record_id = ?", [(asked.stream, asked.record_id)])

    async def park(self, asked: SubmittedRecord) -> None:
        """Its stream refuses it for good: it stays in the file, and is not sent any more."""
        statement = "UPDATE outbox SET place = -place WHERE stream = ? AND record_id = ? AND place > 0"
        await self._do(statement, [(asked.stream, asked.record_id)])

    async def _do(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def work() -> None:
            with closing(self._connect()) as connection, connection:
                connection.executemany(statement, rows)

        try:
            await asyncio.to_thread(work)
        except sqlite3.Error as error:
            raise RetryableError(f"{self._path}: {error}") from None

    def count(self) -> int:
        """How many are there that are still sent. Raises sqlite3.Error where the file cannot be read."""
        with closing(self._connect()) as connection:
            found: int = connection.execute("SELECT count(*) FROM outbox WHERE place > 0").fetchone()[0]
            return found

    def waiting(self, stream: str) -> list[SubmittedRecord]:
        """What is there for a stream, in the order in which it came; ``number`` is 0."""
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "SELECT stream, record_id, raw, digest, ingest_ms FROM outbox WHERE place > 0 AND stream = ? "
                "ORDER BY place LIMIT ?",
                (stream, AT_ONCE),
            )
            return [SubmittedRecord(0, *row) for row in rows]


async def _send_one(
    outbox: SqliteOutbox, log_of: RecordLog, asked: SubmittedRecord, placed: Callable[[str, str, LogPosition], None]
) -> None:
    try:
        (place,) = await log_of.append([asked])
    except RetryableError:
        raise
    except Exception:
        log.exception("an answered record is refused by its stream", stream=asked.stream, record_id=asked.record_id)
        await outbox.park(asked)
        return
    await outbox.done(asked)
    placed(asked.stream, asked.record_id, place)


async def _send_all(
    outbox: SqliteOutbox, stream: str, log_of: RecordLog, placed: Callable[[str, str, LogPosition], None]
) -> bool:
    """Whether the stream took what waits for it."""
    try:
        for asked in await asyncio.to_thread(outbox.waiting, stream):
            await _send_one(outbox, log_of, asked, placed)
    except (RetryableError, sqlite3.Error) as error:
        log.warning("answered records cannot be put into their stream yet", stream=stream, error=str(error))
        return False
    return True


async def send_on(
    outbox: SqliteOutbox,
    logs: Mapping[str, RecordLog],
    stop: asyncio.Event,
    placed: Callable[[str, str, LogPosition], None],
) -> None:
    """Send waiting records to their streams until ``stop`` is set; call ``placed`` with the place of each.

    A stream that takes nothing holds up no other one, and neither does what is there of one that ``logs`` do not have.
    """
    pause_s = PAUSE_S
    while not stop.is_set():
        sent = [await _send_all(outbox, stream, log_of, placed) for stream, log_of in logs.items()]
        pause_s = PAUSE_S if all(sent) else min(2 * pause_s, PAUSE_S_MAX)
        try:
            await asyncio.wait_for(stop.wait(), pause_s)
        except TimeoutError:
            continue
