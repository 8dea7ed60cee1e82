"""The store: one SQLite file with every alert, dead letter, late record, rule event, and the figures of each batch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from crossline.connectors.base import Delivery, wall_clock_ms
from crossline.core import config_sinks
from crossline.core.errors import SinkError, StateError, UsageError
from crossline.core.times import format_instant

SCHEMA_VERSION = 1
BUSY_MS = 10_000
SINK_BUSY_MS = 2_000  # a batch is held and tried again anyhow, and a stop waits for the attempt under way
CLOSE_BUSY_MS = 500

# ``evidence`` is a view: the ids stand once, in the alert's own text, and writing them costs nothing.
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE alerts (
    seq INTEGER PRIMARY KEY, alert_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, rule_id TEXT NOT NULL,
    rule_version INTEGER NOT NULL, rule_type TEXT NOT NULL, severity TEXT NOT NULL, score REAL, action TEXT,
    key TEXT NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL, event_time TEXT NOT NULL,
    ingest_time TEXT NOT NULL, value NUMERIC, threshold NUMERIC, message TEXT NOT NULL,
    detected_at TEXT, delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX alerts_by_time ON alerts (event_time);
CREATE INDEX alerts_by_rule ON alerts (rule_id, event_time);
CREATE VIEW evidence AS
    SELECT a.alert_id AS alert_id, e.key AS position, e.value AS record_id
    FROM alerts AS a, json_each(a.body, '$.evidence.record_ids') AS e;
CREATE TABLE dead_letters (
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, "partition" TEXT NOT NULL, "offset" INTEGER NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, record_id TEXT, raw BLOB, delivered_at TEXT NOT NULL,
    pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, UNIQUE (stream, "partition", "offset", reason)
);
CREATE TABLE late_records (
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, "partition" TEXT NOT NULL, "offset" INTEGER NOT NULL,
    record_id TEXT NOT NULL, event_time TEXT NOT NULL, ingest_time TEXT NOT NULL, lateness_ms INTEGER NOT NULL,
    raw BLOB, delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL,
    UNIQUE (stream, "partition", "offset")
);
CREATE TABLE rule_history (
    seq INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, rule_id TEXT, version INTEGER,
    body TEXT NOT NULL, delivered_at TEXT NOT NULL, UNIQUE (pipeline, body)
);
CREATE TABLE batches (
    pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, alerts INTEGER NOT NULL, dead_letters INTEGER NOT NULL,
    late_records INTEGER NOT NULL, figures TEXT NOT NULL, delivered_at TEXT NOT NULL, PRIMARY KEY (pipeline, batch_id)
) WITHOUT ROWID;
CREATE TABLE runs (run_id INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, started_at TEXT NOT NULL, ended_at TEXT);
"""

# Of each pair of like rows the first stays. DO NOTHING is bound to that one clash: OR IGNORE would also drop a row
# with a null where none may be.
_ALERT = """
INSERT INTO alerts (alert_id, kind, rule_id, rule_version, rule_type, severity, score, action, key, stream, record_id,
    event_time, ingest_time, value, threshold, message, detected_at, delivered_at, pipeline, batch_id, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO NOTHING"""
_DEAD = """
INSERT INTO dead_letters (stream, "partition", "offset", reason, detail, record_id, raw, delivered_at, pipeline,
    batch_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, "partition", "offset", reason) DO NOTHING"""
_LATE = """
INSERT INTO late_records (stream, "partition", "offset", record_id, event_time, ingest_time, lateness_ms, raw,
    delivered_at, pipeline, batch_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (stream, "partition", "offset") DO NOTHING"""
_RULE = """
INSERT INTO rule_history (rule_id, version, body, delivered_at, pipeline, batch_id)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline, body) DO NOTHING"""
_BATCH = """
INSERT INTO batches (pipeline, batch_id, alerts, dead_letters, late_records, figures, delivered_at)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline, batch_id) DO NOTHING"""


class SqliteSink:
    """Stores every delivery in one transaction: all of it or nothing.

    Guarantee: exactly once, over kills and redeliveries. Rows are unique by alert id (or by position, for records), and
    the first one delivered stays. Shadow alerts and those of rules that feed only other rules are stored as well.

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

    @classmethod
    def from_settings(cls, settings: config_sinks.SqliteSink, pipeline: str) -> Self:
        """The store at ``settings.path``."""
        return cls(Path(settings.path), pipeline)

    def open(self) -> None:
        """Create the file where there is none; raises StateError where it is not a store that this version writes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _told(self.path):
            # foreachBatch calls from a thread of its own; calls never overlap.
            connection = sqlite3.connect(
                self.path, timeout=SINK_BUSY_MS / 1000, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self.synchronous.upper()}")
            connection.execute("PRAGMA cache_size = -65536")
            with _transaction(connection):
                _ensure_schema(connection, self.path)
                run = "INSERT INTO runs (pipeline, started_at) VALUES (?, ?)"
                self._run_id = connection.execute(run, (self.pipeline, self._now())).lastrowid

    def deliver(self, delivery: Delivery) -> None:
        """Store ``delivery``; what is there already stays as it is."""
        if self._connection is None:
            raise StateError(f"the store {self.path} is not open")
        now = self._now()
        mark = (delivery.pipeline, delivery.batch_id)
        with _told(self.path), _transaction(self._connection) as connection:
            connection.executemany(_ALERT, _alert_rows(delivery, now))
            connection.executemany(
                _DEAD,
                (
                    (d.stream, d.partition, d.offset, d.reason, d.detail, d.record_id, d.raw, now, *mark)
                    for d in delivery.dead
                ),
            )
            connection.executemany(_LATE, _late_rows(delivery, now))
            connection.executemany(
                _RULE,
                ((e.get("rule_id"), e.get("version"), _sorted_json(e), now, *mark) for e in delivery.rule_events),
            )
            sizes = (len(delivery.alerts), len(delivery.dead), len(delivery.late))
            connection.execute(_BATCH, (*mark, *sizes, orjson.dumps(dict(delivery.figures)).decode(), now))

    def close(self) -> None:
        """Note the end of the run and close the file."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # A stop waits for no other program: a run whose end is not noted is one that was killed.
        with _told(self.path), closing(connection):
            connection.execute(f"PRAGMA busy_timeout = {CLOSE_BUSY_MS}")
            connection.execute("UPDATE runs SET ended_at = ? WHERE run_id = ?", (self._now(), self._run_id))

    def _now(self) -> str:
        return format_instant(self._clock_ms())


def _alert_rows(delivery: Delivery, now: str) -> Iterator[tuple[object, ...]]:
    for alert in delivery.alerts:
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
            a["value"],
            a["threshold"],
            a["message"],
            a["detected_at"],
            now,
            delivery.pipeline,
            delivery.batch_id,
            orjson.dumps(a).decode(),
        )


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
    """SQLite's errors as ours: what may pass (a lock, a full disk) is retryable, a damaged file is not."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SinkError(f"the store {path} cannot be written now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StateError(
            f"the store {path} is not a readable SQLite file: {error}; move it away or restore it"
        ) from error


def _ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables == 0:
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
    check_schema(connection, path)


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StateError unless ``connection`` has a store of this version."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    except sqlite3.OperationalError:
        row = None
    if row is None:
        raise StateError(f"{path} is a database of something else; give the store a path of its own")
    if row[0] != str(SCHEMA_VERSION):
        raise StateError(
            f"the store {path} has schema version {row[0]}; this crossline reads and writes version {SCHEMA_VERSION}: "
            f"use the crossline that wrote it, or give the store another path"
        )


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts to read; None or empty is all of them. In event time: ``since_ms`` <= time < ``until_ms``.

    ``key``: field -> value as text, all of which the alert's key must have.
    """

    rule_id: str | None = None
    kind: str | None = None
    severity: str | None = None
    key: Mapping[str, str] = field(default_factory=dict)
    since_ms: int | None = None
    until_ms: int | None = None

    def where(self) -> tuple[str, list[object]]:
        """The SQL condition and its parameters."""
        parts, values = ["1"], list[object]()
        for column, value in (("rule_id", self.rule_id), ("kind", self.kind), ("severity", self.severity)):
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


class StoreReader:
    """Reads a store, also while a pipeline writes to it. Raises UsageError where there is no file at ``path``."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no store at {path}; give the path of a pipeline's sqlite sink")
        self.path = path
        with _told(path):
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_MS / 1000)
            self._connection.row_factory = sqlite3.Row
            check_schema(self._connection, path)

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
                yield orjson.loads(row["body"])

    def count(self, which: AlertFilter) -> int:
        """How many alerts there are."""
        where, values = which.where()
        return int(self._one(f"SELECT count(*) FROM alerts WHERE {where}", values))  # noqa: S608

    def find(self, prefix: str, limit: int = 10) -> list[dict[str, Any]]:
        """The alerts whose id starts with ``prefix``, at most ``limit``."""
        # Ids have no character above f, so that g bounds them; the range uses the index, LIKE would not.
        query = "SELECT body FROM alerts WHERE alert_id >= ? AND alert_id < ? ORDER BY alert_id LIMIT ?"
        low = prefix.lower()
        return [orjson.loads(row["body"]) for row in self._all(query, [low, f"{low}g", limit])]

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
