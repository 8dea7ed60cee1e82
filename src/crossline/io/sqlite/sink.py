"""The SQLite store: every alert, dead letter, late record and rule event, and the figures of each batch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

import orjson
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from crossline.basics.errors import PermanentError, SinkError, StateError
from crossline.basics.times import format_instant, instant_text
from crossline.evaluate.alerts.alert_json import json_bytes, number_of
from crossline.io.sinks.base import Delivery, wall_clock_ms
from crossline.io.sinks.identity import identity_of
from crossline.io.sqlite.decisions import store_decisions
from crossline.io.sqlite.schema import ensure_schema
from crossline.io.stores.open_file import OpenFile
from crossline.settings import sinks as config_sinks

# How long one attempt waits for a lock. Attempts follow each other by the policy of the batch, which heeds a stop.
BUSY_MS = 500
OPEN_MS = 10_000
CLOSE_MS = 200  # for a reader that the log is still needed by

# Of each pair of like rows the first stays. DO NOTHING is bound to that one clash: OR IGNORE would also drop a row
# with a null where none may be.
_ALERT = """
INSERT INTO alerts (alert_id, kind, rule_id, rule_version, rule_type, severity, score, action, key, stream, record_id,
    event_time, ingest_time, value, threshold, message, detected_at, delivered_at, pipeline, batch_id, body,
    at_partition, at_offset)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (alert_id, pipeline) DO NOTHING"""
_DEAD = """
INSERT INTO dead_letters (stream, "partition", "offset", reason, detail, record_id, raw, identity, delivered_at,
    pipeline, batch_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (identity, pipeline) DO NOTHING"""
_LATE = """
INSERT INTO late_records (stream, "partition", "offset", record_id, event_time, ingest_time, lateness_ms, raw,
    delivered_at, pipeline, batch_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, "partition", "offset", record_id, pipeline)
    DO NOTHING"""
_RULE = """
INSERT INTO rule_history (rule_id, version, body, delivered_at, pipeline, batch_id)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline, body) DO NOTHING"""
_BATCH = """
INSERT INTO batches (pipeline, batch_id, alerts, dead_letters, late_records, figures, delivered_at)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline, batch_id) DO NOTHING"""


class SqliteSink:
    """Stores every delivery in one transaction: all of it or nothing.

    Guarantee: exactly once, over kills and redeliveries, whatever the numbers of the batches. Rows are unique by
    pipeline and alert id (records: by position and id), and the first one delivered stays. Shadow alerts and those of
    rules that feed only other rules are stored as well. Several pipelines may share a store.

    A store that is deleted or replaced while it is open takes no batch: its path is compared with the file that is
    written, before and after each transaction.

    A killed process loses nothing that ``deliver`` took, since the pages are the kernel's by then. A power failure is
    another matter: with ``synchronous`` normal SQLite leaves the log unsynced at a commit, so that the last batches
    may vanish after the pipeline has gone past them. ``full``, the default, syncs at each commit: about a millisecond.
    """

    def __init__(
        self,
        path: Path,
        pipeline: str,
        synchronous: Literal["full", "normal"] = "full",
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.path = path
        self.pipeline = pipeline
        self.synchronous = synchronous
        self._clock_ms = clock_ms
        self._connection: sqlite3.Connection | None = None
        self._run_id: int | None = None
        self._files: list[OpenFile] = []

    @classmethod
    def from_settings(cls, settings: config_sinks.SqliteSettings, pipeline: str) -> Self:
        """The store at ``settings.path``."""
        return cls(Path(settings.path), pipeline)

    def open(self) -> None:
        """Create the file where there is none, and bring an older store to this version.

        Raises StateError where it is not a store that this version writes, PermanentError where the log of another one
        stands beside it, SinkError where it stays locked for ten seconds or the disk does not take it.
        """
        attempts = Retrying(
            retry=retry_if_exception_message(match=".*locked"),
            stop=stop_after_delay(OPEN_MS / 1000),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        # Pieces of waiting that a signal can come between.
        attempts(self._open)

    def _open(self) -> None:
        with translated_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._spare_log()
            # foreachBatch calls from a thread of its own; calls never overlap.
            connection = sqlite3.connect(
                self.path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA synchronous = {self.synchronous.upper()}")
                connection.execute("PRAGMA cache_size = -65536")
                with _transaction(connection):
                    ensure_schema(connection, self.path)
                    run = "INSERT INTO runs (pipeline, started_at) VALUES (?, ?)"
                    self._run_id = connection.execute(run, (self.pipeline, self._now())).lastrowid
                # The log beside it holds what is not in the file yet.
                self._files = [OpenFile.of(path) for path in (self.path, self._log_path) if path.exists()]
            except BaseException:
                connection.close()
                raise
            self._connection = connection

    def _spare_log(self) -> None:
        """SQLite deletes a write-ahead log beside a new database: raise PermanentError where one is there."""
        if not _size(self.path) and _size(self._log_path):
            raise PermanentError(
                f"{self._log_path} belongs to the store that was moved away from {self.path}, and has rows that are "
                "not in it yet; put the store back, or move this file to where the store is, under the store's name "
                "with -wal behind it"
            )

    def deliver(self, delivery: Delivery) -> None:
        """Store ``delivery``; what is there already stays as it is.

        Raises SinkError where it is locked, the disk does not take it, or the file was deleted or replaced.
        """
        if self._connection is None:
            raise StateError(f"the store {self.path} is not open")
        self._check_files()
        now = self._now()
        mark = (delivery.pipeline, delivery.batch_id)
        with translated_errors(self.path), _transaction(self._connection) as connection:
            connection.executemany(_ALERT, _alert_rows(delivery, now))
            store_decisions(connection, delivery, now)
            connection.executemany(_DEAD, _dead_rows(delivery, now))
            connection.executemany(_LATE, _late_rows(delivery, now))
            connection.executemany(
                _RULE,
                ((e.get("rule_id"), e.get("version"), _sorted_json(e), now, *mark) for e in delivery.rule_events),
            )
            sizes = (len(delivery.alerts), len(delivery.dead), len(delivery.late))
            connection.execute(_BATCH, (*mark, *sizes, orjson.dumps(dict(delivery.figures)).decode(), now))
        self._check_files()

    def close(self) -> None:
        """Note the end of the run and close the file; raises SinkError where only the latter can be done at once.

        Checkpoints the write-ahead log into the file, unless another connection still reads the log.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with translated_errors(self.path), closing(connection):
            connection.execute("UPDATE runs SET ended_at = ? WHERE run_id = ?", (self._now(), self._run_id))
            # SQLite does it at the last close alone, which may be that of one who only reads and cannot.
            with suppress(sqlite3.Error):
                connection.execute(f"PRAGMA busy_timeout = {CLOSE_MS}")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def _log_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _check_files(self) -> None:
        for file in self._files:
            file.check()

    def _now(self) -> str:
        return format_instant(self._clock_ms())


def _size(path: Path) -> int:
    """Bytes; 0 where there is no file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _alert_rows(delivery: Delivery, now: str) -> Iterator[tuple[object, ...]]:
    positions: Sequence[tuple[str | None, int | None]] = delivery.positions or [(None, None)] * len(delivery.alerts)
    for alert, position in zip(delivery.alerts, positions, strict=True):
        a = {**alert, "delivered_at": now}
        yield (
            a["alert_id"],
            a["kind"],
            a["rule_id"],
            a["rule_version"],
            a["rule_type"],
            a["severity"],
            a["score"],
            a["action"],
            orjson.dumps(a["key"]).decode(),
            a["stream"],
            a["record_id"],
            a["event_time"],
            a["ingest_time"],
            number_of(a["value"]),
            number_of(a["threshold"]),
            a["message"],
            a["detected_at"],
            now,
            delivery.pipeline,
            delivery.batch_id,
            json_bytes(a).decode(),
            *position,
        )


def _dead_rows(delivery: Delivery, now: str) -> Iterator[tuple[object, ...]]:
    for d in delivery.dead:
        mark = (now, delivery.pipeline, delivery.batch_id)
        yield (d.stream, d.partition, d.offset, d.reason, d.detail, d.record_id, d.raw, identity_of(d), *mark)


def _late_rows(delivery: Delivery, now: str) -> Iterator[tuple[object, ...]]:
    for r in delivery.late:
        times = (instant_text(r.event_ms), instant_text(r.ingest_ms), r.lateness_ms)
        mark = (now, delivery.pipeline, delivery.batch_id)
        yield (r.stream, r.partition, r.offset, r.record_id, *times, r.raw, *mark)


def _sorted_json(event: object) -> str:
    return json.dumps(event, sort_keys=True, ensure_ascii=False, default=str)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Translates errors of SQLite and the disk: a lock or a full disk is retryable, damage is not."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise SinkError(f"the store {path} cannot be written now: {error}") from error
    except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, OverflowError) as error:
        raise StateError(f"the store {path} cannot hold what it was given: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StateError(
            f"the store {path} is not a readable SQLite file: {error}; move it away or restore it"
        ) from error
