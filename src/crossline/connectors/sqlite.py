"""The store: one SQLite file with every alert, dead letter, late record, rule event, and the figures of each batch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import orjson
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_fixed

from crossline.connectors.base import Delivery, wall_clock_ms
from crossline.connectors.identity import identity_of
from crossline.connectors.sqlite_decisions import store_decisions
from crossline.connectors.sqlite_schema import check_schema, ensure_schema
from crossline.connectors.standing import Standing
from crossline.core.alerts.alertjson import json_bytes, number_of, read_alert
from crossline.core.basics.errors import PermanentError, SinkError, StateError, UsageError
from crossline.core.basics.times import format_instant
from crossline.core.settings import sinks as config_sinks

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
        self._files: list[Standing] = []

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
        with _told(self.path):
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
                self._files = [Standing.of(path) for path in (self.path, self._log_path) if path.exists()]
            except BaseException:
                connection.close()
                raise
            self._connection = connection

    def _spare_log(self) -> None:
        """A new database throws away the log that it finds: raise PermanentError where that is not its own."""
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
        with _told(self.path), _transaction(self._connection) as connection:
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

        What is in the log is brought into the file, unless somebody still reads the log.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with _told(self.path), closing(connection):
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
        times = (format_instant(r.event_ms), format_instant(r.ingest_ms), r.lateness_ms)
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
def _told(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the disk as ours: what may pass (a lock, a full disk) is retryable, damage is not."""
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


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts to read; None or empty is all of them. In event time: ``since_ms`` <= time < ``until_ms``.

    ``key``: field -> value as text, all of which the alert's key must have. ``corrects``: of what alert, by its id.
    """

    rule_id: str | None = None
    kind: str | None = None
    severity: str | None = None
    key: Mapping[str, str] = field(default_factory=dict)
    since_ms: int | None = None
    until_ms: int | None = None
    corrects: str | None = None

    def where(self) -> tuple[str, list[object]]:
        """The SQL condition and its parameters."""
        parts, values = ["1"], list[object]()
        columns = ("rule_id", self.rule_id), ("kind", self.kind), ("severity", self.severity)
        for column, value in (*columns, ("json_extract(body, '$.corrects')", self.corrects)):
            if value is not None:
                parts.append(f"{column} = ?")
                values.append(value)
        for operator, instant in ((">=", self.since_ms), ("<", self.until_ms)):
            if instant is not None:
                parts.append(f"event_time {operator} ?")
                values.append(format_instant(instant))
        for name, value in self.key.items():
            parts.append(_KEY_HAS)
            values += [name, value]
        return " AND ".join(parts), values


# JSON's true and false are 1 and 0 to SQL; a person writes them as JSON does.
_KEY_HAS = """EXISTS (SELECT 1 FROM json_each(alerts.key) AS k WHERE k.key = ? AND
    CASE k.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(k.value AS TEXT) END = ?)"""


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert of ``pipeline`` as delivered. ``position``: partition and offset of the record at which it fired.

    None in rows of a store of version 1 or 2, which did not note it.
    """

    alert: dict[str, Any]
    pipeline: str
    position: tuple[str, int] | None


class StoreReader:
    """Reads a store, also while a pipeline writes to it. Raises UsageError where there is no file at ``path``."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no store at {path}; give the path of a pipeline's sqlite sink")
        self.path = path
        with _told(path):
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=OPEN_MS / 1000)
            self._connection.row_factory = sqlite3.Row
            self._version = check_schema(self._connection, path)

    def alerts(
        self, which: AlertFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Alerts as delivered, in order of event time, the first ``limit`` in that order."""
        where, values = which.where()
        order = "DESC" if newest_first else "ASC"
        query = f"SELECT body FROM alerts WHERE {where} ORDER BY event_time {order}, seq {order} LIMIT ?"  # noqa: S608
        values.append(-1 if limit is None else limit)
        with _told(self.path):
            for row in self._connection.execute(query, values):
                yield read_alert(row["body"])

    def count(self, which: AlertFilter) -> int:
        """How many alerts there are."""
        where, values = which.where()
        return int(self._one(f"SELECT count(*) FROM alerts WHERE {where}", values))  # noqa: S608

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """The alerts whose id starts with ``prefix``, at most ``limit``."""
        where = "NULL, NULL" if self._version in {"1", "2"} else "at_partition, at_offset"
        # Ids have no character above f, so that g bounds them; the range uses the index, LIKE would not.
        query = f"""SELECT body, pipeline, {where} FROM alerts WHERE alert_id >= ? AND alert_id < ?
            ORDER BY alert_id LIMIT ?"""  # noqa: S608
        low = prefix.lower()
        return [
            StoredAlert(read_alert(body), pipeline, None if offset is None else (partition, offset))
            for body, pipeline, partition, offset in self._all(query, [low, f"{low}g", limit])
        ]

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:
        """A version of a rule as ``pipeline`` took it up; None where the store was not told."""
        query = "SELECT body FROM rule_history WHERE pipeline = ? AND rule_id = ? AND version = ? ORDER BY seq DESC"
        events = [orjson.loads(row["body"]) for row in self._all(query, [pipeline, rule_id, version])]
        return next((event["body"] for event in events if event.get("body")), None)

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Partitions and offsets of records of ``stream`` with these ids that were refused, or came too late."""
        which = """FROM {} WHERE pipeline = ? AND stream = ? AND record_id IN (SELECT value FROM json_each(?))"""
        tables = [f'SELECT "partition", "offset" {which.format(name)}' for name in ("dead_letters", "late_records")]
        values = [pipeline, stream, orjson.dumps(list(record_ids)).decode()]
        return {(row[0], row[1]) for row in self._all(" UNION ".join(tables), values * 2)}

    def rule_ids(self) -> list[str]:
        """The rules that have alerts here."""
        return [row["rule_id"] for row in self._all("SELECT DISTINCT rule_id FROM alerts ORDER BY rule_id")]

    def dead_counts(self) -> dict[str, int]:
        """Dead letters by reason, most first."""
        query = "SELECT reason, count(*) AS n FROM dead_letters GROUP BY reason ORDER BY n DESC, reason"
        return {row["reason"]: row["n"] for row in self._all(query)}

    def dead_letters(self, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Dead letters in the order of their delivery; ``raw`` is bytes, or None where only the source has them."""
        query = """SELECT stream, "partition", "offset", reason, detail, record_id, raw, delivered_at FROM dead_letters
            WHERE ? IS NULL OR reason = ? ORDER BY seq LIMIT ?"""
        return [dict(row) for row in self._all(query, [reason, reason, -1 if limit is None else limit])]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _all(self, query: str, values: list[Any] | None = None) -> list[sqlite3.Row]:
        with _told(self.path):
            return self._connection.execute(query, values or []).fetchall()

    def _one(self, query: str, values: list[Any]) -> Any:
        return self._all(query, values)[0][0]
