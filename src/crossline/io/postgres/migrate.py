"""Migrates the tables of a schema to this version: numbered SQL files, each in one transaction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from psycopg import sql

from crossline.basics.errors import StateError
from crossline.io.postgres.client import Connection, DatabaseAddress
from crossline.logs import get_logger

_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_version (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
)"""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Migration:
    """``text``: statements that lead from version ``number`` - 1 to ``number``."""

    number: int
    name: str
    text: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All of them, in their order."""
    folder = resources.files("crossline.io.postgres") / "migrations"
    found = [(match, file) for file in folder.iterdir() if (match := _NAME.fullmatch(file.name)) is not None]
    read = [Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")) for match, file in found]
    return tuple(sorted(read, key=lambda each: each.number))


def newest() -> int:
    """The version that this crossline writes and reads."""
    return migrations()[-1].number


def migrate(connection: Connection, place: DatabaseAddress, steps: tuple[Migration, ...] | None = None) -> None:
    """Create the schema, or migrate it to the newest version. Idempotent.

    Several may do it at the same time: one does, the others wait. Raises StateError where the schema is of a newer
    crossline, or of something else, and what psycopg raises.
    """
    steps = migrations() if steps is None else steps
    if version_of(connection, place, steps[-1].number) == steps[-1].number:
        return  # a user without the right to create tables can still write
    with connection.transaction():
        _lock(connection, place)
        if _version(connection, place) is None:
            if not _exists(connection, place):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(place.schema)))
            connection.execute(_VERSIONS)
    for step in steps:
        with connection.transaction():
            _lock(connection, place)
            version = version_of(connection, place, steps[-1].number) or 0
            if step.number <= version:
                continue
            if step.number != version + 1:
                raise StateError(f"the store {place.name} has version {version}, and there is no step to {version + 1}")
            connection.execute(step.text.encode())
            applied = "INSERT INTO schema_version (version, name) VALUES (%s, %s)"
            connection.execute(applied, (step.number, step.name))
        log.info("the store has a new version", store=place.name, version=step.number, name=step.name)


def version_of(connection: Connection, place: DatabaseAddress, known: int | None = None) -> int | None:
    """The version of the schema; None where there are no tables yet.

    Raises StateError where it is beyond ``known`` (by default the newest), or the schema is that of something else.
    """
    version, known = _version(connection, place), newest() if known is None else known
    if version is not None and version > known:
        raise StateError(
            f"the store {place.name} has version {version}; this crossline knows version {known} and older ones: "
            "use the crossline that made it, or give the sink another schema"
        )
    return version


def _version(connection: Connection, place: DatabaseAddress) -> int | None:
    # Of the catalogue's own tables: what looks names up for us may remember from before we had the lock.
    query = """SELECT c.relname FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %s ORDER BY c.relname = 'schema_version' DESC, c.relname LIMIT 1"""
    found = connection.execute(query, (place.schema,)).fetchone()
    if found is None:
        return None
    if found[0] != "schema_version":
        raise StateError(
            f"schema {place.schema} of {place.name} holds something else ({found[0]}); "
            "give the sink a schema of its own"
        )
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
    return int(row[0]) if row is not None else 0


def _exists(connection: Connection, place: DatabaseAddress) -> bool:
    query = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
    return connection.execute(query, (place.schema,)).fetchone() is not None


def _lock(connection: Connection, place: DatabaseAddress) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock_key(),))
