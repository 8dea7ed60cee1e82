"""The tables of a store, and the migration of older stores."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from crossline.basics.errors import StateError
from crossline.io.sinks.identity import dead_identity
from crossline.logs import get_logger

SCHEMA_VERSION = 5
READABLE = {"1", "2", "3", "4", str(SCHEMA_VERSION)}  # readers do without later columns

log = get_logger(__name__)

# What two pipelines give is never one: the ids of their alerts may be the same, and so may the positions of their
# records. ``at_partition`` and ``at_offset``: where the record stands at which an alert fired, null where that was not
# noted. ``identity`` of a dead letter is its position, its reason, and which record it was: the position alone comes
# again where a file or topic was replaced.
_TABLES = {
    "alerts": """
    seq INTEGER PRIMARY KEY, alert_id TEXT NOT NULL, kind TEXT NOT NULL, rule_id TEXT NOT NULL,
    rule_version INTEGER NOT NULL, rule_type TEXT NOT NULL, severity TEXT NOT NULL, score REAL, action TEXT,
    key TEXT NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL, event_time TEXT NOT NULL,
    ingest_time TEXT NOT NULL, value NUMERIC, threshold NUMERIC, message TEXT NOT NULL,
    detected_at TEXT, delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, body TEXT NOT NULL,
    at_partition TEXT, at_offset INTEGER, UNIQUE (alert_id, pipeline)""",
    "decisions": """
    seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, decision TEXT NOT NULL, score INTEGER NOT NULL,
    policy_version INTEGER NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL, event_time TEXT NOT NULL,
    delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, body TEXT NOT NULL,
    UNIQUE (decision_id, pipeline)""",
    "dead_letters": """
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, "partition" TEXT NOT NULL, "offset" INTEGER NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, record_id TEXT, raw BLOB, delivered_at TEXT NOT NULL,
    pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, identity BLOB NOT NULL, UNIQUE (identity, pipeline)""",
    "late_records": """
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, "partition" TEXT NOT NULL, "offset" INTEGER NOT NULL,
    record_id TEXT NOT NULL, event_time TEXT NOT NULL, ingest_time TEXT NOT NULL, lateness_ms INTEGER NOT NULL,
    raw BLOB, delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL,
    UNIQUE (stream, "partition", "offset", record_id, pipeline)""",
    "rule_history": """
    seq INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, rule_id TEXT, version INTEGER,
    body TEXT NOT NULL, delivered_at TEXT NOT NULL, UNIQUE (pipeline, body)""",
    "runs": "run_id INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, started_at TEXT NOT NULL, ended_at TEXT",
}
_KEYED = {
    "meta": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "batches": """
    pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, alerts INTEGER NOT NULL, dead_letters INTEGER NOT NULL,
    late_records INTEGER NOT NULL, figures TEXT NOT NULL, delivered_at TEXT NOT NULL, PRIMARY KEY (pipeline, batch_id)
""",
}
# ``evidence`` is a view: the ids stand once, in the alert's own text, and writing them costs nothing.
_OF_DECISIONS = ("CREATE INDEX decisions_by_record ON decisions (record_id)",)
_OF_ALERTS = (
    "CREATE INDEX alerts_by_time ON alerts (event_time)",
    "CREATE INDEX alerts_by_rule ON alerts (rule_id, event_time)",
    """CREATE VIEW evidence AS
    SELECT a.alert_id AS alert_id, e.key AS position, e.value AS record_id, a.pipeline AS pipeline
    FROM alerts AS a, json_each(a.body, '$.evidence.record_ids') AS e""",
)

# A value of a key as people write it: true and false as JSON does, which are 1 and 0 to SQL.
KEY_VALUE = "CASE k.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(k.value AS TEXT) END"
_KEYS_OF_ALL = f"""INSERT OR IGNORE INTO alert_keys SELECT k.key, {KEY_VALUE}, a.seq
    FROM alerts AS a, json_each(a.key) AS k WHERE k.type != 'null'"""  # noqa: S608 - our own text
# Alerts by field and value of their keys, and decisions by time, so that neither is looked for among all.
_TO_VERSION_5 = (
    """CREATE TABLE alert_keys (field TEXT NOT NULL, value TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (field, value, seq)) WITHOUT ROWID""",
    f"""CREATE TRIGGER alerts_have_keys AFTER INSERT ON alerts BEGIN INSERT OR IGNORE INTO alert_keys
    SELECT k.key, {KEY_VALUE}, NEW.seq FROM json_each(NEW.key) AS k WHERE k.type != 'null'; END""",  # noqa: S608 - our own text
    _KEYS_OF_ALL,
    "CREATE INDEX decisions_by_time ON decisions (event_time)",
)

_ALERT_COLUMNS = """seq, alert_id, kind, rule_id, rule_version, rule_type, severity, score, action, key, stream,
    record_id, event_time, ingest_time, value, threshold, message, detected_at, delivered_at, pipeline, batch_id,
    body"""
_DEAD_COLUMNS = 'seq, stream, "partition", "offset", reason, detail, record_id, raw, delivered_at, pipeline, batch_id'
_LATE_COLUMNS = """seq, stream, "partition", "offset", record_id, event_time, ingest_time, lateness_ms, raw,
    delivered_at, pipeline, batch_id"""
_IDENTITY = 'dead_identity(stream, "partition", "offset", reason, record_id, raw)'
# Uniqueness stands in a table's definition, so a table with another one is a new table.
_FROM_1 = {
    "alerts": (_ALERT_COLUMNS, _ALERT_COLUMNS),
    "dead_letters": (f"{_DEAD_COLUMNS}, identity", f"{_DEAD_COLUMNS}, {_IDENTITY}"),
    "late_records": (_LATE_COLUMNS, _LATE_COLUMNS),
}


def ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in an empty file, and those of this version from those of an older one; within a transaction.

    Raises StateError where it is not a store, or one of a version that this crossline does not know.
    """
    if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        for name, columns in _KEYED.items():
            connection.execute(f"CREATE TABLE {name} ({columns}) WITHOUT ROWID")
        for statement in (*_OF_ALERTS, *_OF_DECISIONS, *_TO_VERSION_5):
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
        return
    version = check_schema(connection, path)
    if version == "1":
        _from_version_1(connection, path)
    elif version == "2":
        connection.execute("ALTER TABLE alerts ADD COLUMN at_partition TEXT")
        connection.execute("ALTER TABLE alerts ADD COLUMN at_offset INTEGER")
    if version in {"1", "2", "3"}:
        connection.execute(f"CREATE TABLE decisions ({_TABLES['decisions']})")
        for statement in _OF_DECISIONS:
            connection.execute(statement)
    if version != str(SCHEMA_VERSION):
        for statement in _TO_VERSION_5:
            connection.execute(statement)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema_version'", (str(SCHEMA_VERSION),))


def index_keys_anew(connection: sqlite3.Connection) -> None:
    """Index the keys of the alerts that there are, after alerts went or changed: the trigger sees new ones alone.

    A row that an alert left behind would be that of the next alert with its number.
    """
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'alert_keys'").fetchone():
        connection.execute("DELETE FROM alert_keys")
        connection.execute(_KEYS_OF_ALL)


def check_schema(connection: sqlite3.Connection, path: Path) -> str:
    """The version of the store; raises StateError unless it is one that this crossline reads."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    except sqlite3.OperationalError as error:
        if "no such" not in str(error):  # locked, or the disk: that passes
            raise
        row = None
    if row is None:
        raise StateError(f"{path} is a database of something else; give the store a path of its own")
    if row[0] not in READABLE:
        raise StateError(
            f"the store {path} has schema version {row[0]}; this crossline reads and writes version {SCHEMA_VERSION}: "
            f"use the crossline that wrote it, or give the store another path"
        )
    return str(row[0])


def _from_version_1(connection: sqlite3.Connection, path: Path) -> None:
    log.info("migrating the store to a new version; this rewrites it once", store=str(path), to=SCHEMA_VERSION)
    connection.create_function("dead_identity", 6, dead_identity, deterministic=True)
    for statement in ("DROP VIEW evidence", "DROP INDEX alerts_by_time", "DROP INDEX alerts_by_rule"):
        connection.execute(statement)
    for name, (columns, values) in _FROM_1.items():
        connection.execute(f"ALTER TABLE {name} RENAME TO {name}_1")
        connection.execute(f"CREATE TABLE {name} ({_TABLES[name]})")
        connection.execute(f"INSERT INTO {name} ({columns}) SELECT {values} FROM {name}_1 ORDER BY seq")  # noqa: S608
        connection.execute(f"DROP TABLE {name}_1")
    for statement in _OF_ALERTS:
        connection.execute(statement)
