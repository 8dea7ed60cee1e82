"""The tables of a ledger in PostgreSQL: those of ``serve.ledger.schema``, by which both are read alike."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

from crossline.basics.errors import StateError, UsageError
from crossline.io.postgres.client import Connection, DatabaseAddress
from crossline.io.postgres.migrate import Migration, migrate

_ID_BYTES = 4
_TABLES = """
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
-- A chain a slot. The slot's process is known by the incarnation, and alive while its session holds the slot's lock.
CREATE TABLE chains (slot integer PRIMARY KEY, replica text NOT NULL UNIQUE, incarnation bigint NOT NULL,
    process text NOT NULL, sequence bigint NOT NULL, digest text NOT NULL, gone_sequence bigint NOT NULL,
    gone_digest text NOT NULL);
-- Without body: claimed. Slot null: the claim has no holder any more.
CREATE TABLE answers (stream text NOT NULL, record_id text NOT NULL, body_digest text NOT NULL, slot integer,
    incarnation bigint, claimed_ms bigint NOT NULL, decision_id text, answered text, decision text, body bytea,
    answered_ms bigint, PRIMARY KEY (stream, record_id));
CREATE INDEX answers_by_decision ON answers (decision_id) WHERE decision_id IS NOT NULL;
CREATE INDEX answers_pending ON answers (claimed_ms) WHERE body IS NULL;
CREATE INDEX answers_by_time ON answers (answered_ms) WHERE answered_ms IS NOT NULL;
CREATE TABLE receipts (replica text NOT NULL, sequence bigint NOT NULL, decision_id text NOT NULL,
    digest text NOT NULL, basis text NOT NULL, rest bytea NOT NULL, at_ms bigint NOT NULL,
    PRIMARY KEY (replica, sequence));
CREATE UNIQUE INDEX receipts_by_decision ON receipts (decision_id);
CREATE TABLE bases (digest text PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE revisions (decision_id text NOT NULL, revision_id text NOT NULL, revision bigint NOT NULL,
    body bytea NOT NULL, at_ms bigint NOT NULL, PRIMARY KEY (decision_id, revision_id));
-- By slot, so that processes do not wait for each other.
CREATE TABLE counts (slot integer NOT NULL, name text NOT NULL, answered text NOT NULL, number bigint NOT NULL,
    PRIMARY KEY (slot, name, answered));
"""
# Revisions that are not delivered yet. Slot and incarnation: the process that delivers them, unless it has ended.
_UNTOLD = """
CREATE TABLE untold (number bigserial PRIMARY KEY, decision_id text NOT NULL, revision_id text NOT NULL UNIQUE,
    body bytea NOT NULL, slot integer NOT NULL, incarnation bigint NOT NULL);
CREATE INDEX untold_by_decision ON untold (decision_id);
"""
STEPS = (Migration(1, "ledger", _TABLES), Migration(2, "untold", _UNTOLD))


class PostgresRows:
    """A connection as ``serve.ledger.reading`` asks one: values stand where ``?`` is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        """The cursor of what was asked. Raises what psycopg raises."""
        return self._connection.execute(statement.replace("?", "%s").encode(), values)


def ensure_ledger(connection: Connection, place: DatabaseAddress) -> str:
    """Make the tables where there are none; the ledger's id, which its chains are named after.

    Raises StateError if the schema is that of something else, or of a later version.
    """
    migrate(connection, place, STEPS)
    check_ledger_schema(connection, place)
    made = "INSERT INTO meta VALUES ('ledger_id', %s) ON CONFLICT (name) DO NOTHING"
    connection.execute(made, (secrets.token_hex(_ID_BYTES),))
    row = connection.execute("SELECT value FROM meta WHERE name = 'ledger_id'").fetchone()
    assert row is not None  # noqa: S101 - it was put there
    return str(row[0])


def ensure_owner(connection: Connection, place: DatabaseAddress, pipeline: str) -> None:
    """Note at the first start whose answers the ledger has. Raises UsageError if they are another pipeline's."""
    connection.execute("INSERT INTO meta VALUES ('pipeline', %s) ON CONFLICT (name) DO NOTHING", (pipeline,))
    row = connection.execute("SELECT value FROM meta WHERE name = 'pipeline'").fetchone()
    if row is not None and row[0] != pipeline:
        raise UsageError(
            f"serve.ledger: schema {place.schema} of {place.name} has what was answered for pipeline {row[0]}; "
            f"expected that of {pipeline}: name a schema of its own, or, if the pipeline was renamed, delete the row "
            "pipeline of its table meta"
        )


def check_ledger_schema(connection: Connection, place: DatabaseAddress) -> None:
    """Raises StateError unless the schema holds a ledger."""
    row = connection.execute(
        "SELECT to_regclass('chains') IS NOT NULL AND to_regclass('answers') IS NOT NULL"
    ).fetchone()
    if row is None or not row[0]:
        raise StateError(
            f"schema {place.schema} of {place.name} holds no ledger; give serve.ledger a schema of its own"
        )


def alive(table: str) -> str:
    """An expression: whether the process of ``slot`` and ``incarnation`` lives. Its value is ``slots_key``.

    It does where it holds its slot, and is the one that held it then.
    """
    return f"""EXISTS (SELECT 1 FROM chains AS c, pg_locks AS l
        WHERE c.slot = {table}.slot AND c.incarnation = {table}.incarnation
        AND l.locktype = 'advisory' AND l.granted AND l.classid = %s::bigint::oid
        AND l.objid = {table}.slot::bigint::oid AND l.objsubid = 2
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""  # noqa: S608 - of constants


def slots_key(place: DatabaseAddress) -> int:
    """The first of the two numbers of a slot's advisory lock; the second is the slot's own."""
    digest = hashlib.blake2b(f"crossline slots\x1f{place.schema}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
