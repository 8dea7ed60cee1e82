"""The tables of a ledger in SQLite."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crossline.basics.errors import RetryableError, StateError

SCHEMA_VERSION = 1
# Its name in the folder `serve.path`.
LEDGER_FILE = "ledger.db"
_ID_BYTES = 4

_TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # A chain a slot; the slot's process is known by the incarnation, and alive while the slot's file is locked.
    # ``gone``: the last receipt that retention has removed.
    """CREATE TABLE chains (slot INTEGER PRIMARY KEY, replica TEXT NOT NULL UNIQUE, incarnation INTEGER NOT NULL,
        process TEXT NOT NULL, sequence INTEGER NOT NULL, digest TEXT NOT NULL, gone_sequence INTEGER NOT NULL,
        gone_digest TEXT NOT NULL)""",
    # Without body: claimed. ``slot`` null: the claim has no holder any more.
    """CREATE TABLE answers (stream TEXT NOT NULL, record_id TEXT NOT NULL, body_digest TEXT NOT NULL, slot INTEGER,
        incarnation INTEGER, claimed_ms INTEGER NOT NULL, decision_id TEXT, answered TEXT, decision TEXT, body BLOB,
        answered_ms INTEGER, PRIMARY KEY (stream, record_id))""",
    "CREATE INDEX answers_by_decision ON answers (decision_id) WHERE decision_id IS NOT NULL",
    "CREATE INDEX answers_pending ON answers (claimed_ms) WHERE body IS NULL",
    # ``rest``: what stands neither in the answer nor in the basis.
    """CREATE TABLE receipts (replica TEXT NOT NULL, sequence INTEGER NOT NULL, decision_id TEXT NOT NULL,
        digest TEXT NOT NULL, basis TEXT NOT NULL, rest BLOB NOT NULL, at_ms INTEGER NOT NULL,
        PRIMARY KEY (replica, sequence)) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX receipts_by_decision ON receipts (decision_id)",
    "CREATE TABLE bases (digest TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE revisions (decision_id TEXT NOT NULL, revision_id TEXT NOT NULL, revision INTEGER NOT NULL,
        body BLOB NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (decision_id, revision_id)) WITHOUT ROWID""",
    """CREATE TABLE counts (name TEXT NOT NULL, answered TEXT NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (name, answered)) WITHOUT ROWID""",
)


def ensure_schema(connection: sqlite3.Connection, path: Path) -> str:
    """Make the tables in an empty file, within a transaction; the ledger's id, which its chains are named after.

    Raises StateError if it is no ledger, or one of a version that this crossline does not know.
    """
    if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
        for statement in _TABLES:
            connection.execute(statement)
        made = [("schema_version", str(SCHEMA_VERSION)), ("ledger_id", secrets.token_hex(_ID_BYTES))]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", made)
    return check_schema(connection, path)


def check_schema(connection: sqlite3.Connection, path: Path) -> str:
    """The ledger's id. Raises StateError unless it is a ledger that this crossline reads."""
    try:
        found = dict(connection.execute("SELECT name, value FROM meta"))
    except sqlite3.OperationalError as error:
        if "no such" not in str(error):  # locked, or the disk: that passes
            raise
        found = {}
    if "ledger_id" not in found:
        raise StateError(f"{path} is a database of something else; expected a ledger, or a path of its own")
    if found.get("schema_version") != str(SCHEMA_VERSION):
        raise StateError(
            f"the ledger {path} has schema version {found.get('schema_version')}; this crossline reads version "
            f"{SCHEMA_VERSION}: use the crossline that wrote it"
        )
    return str(found["ledger_id"])


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the disk as ours: what may pass (a lock, a full disk) is retryable, damage is not."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise RetryableError(f"the ledger {path} takes nothing now: {error}") from error
    except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, OverflowError) as error:
        raise StateError(f"the ledger {path} cannot hold what it was given: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StateError(
            f"the ledger {path} is not a readable SQLite file: {error}; put it back from a copy"
        ) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All of it or nothing; others that write wait from its beginning on."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
