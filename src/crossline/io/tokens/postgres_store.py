"""The token store in a PostgreSQL database, for pipelines on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from crossline.io.postgres.client import Connection, DatabaseAddress, translated_errors
from crossline.io.tokens.master_key import MasterKey
from crossline.io.tokens.token_store import KeyRows, TokenStore

_TABLES = (
    "CREATE TABLE IF NOT EXISTS token_meta (name text PRIMARY KEY, value bytea NOT NULL)",
    "CREATE TABLE IF NOT EXISTS token_keys (person bytea PRIMARY KEY, wrapped bytea NOT NULL)",
    "CREATE TABLE IF NOT EXISTS token_destroyed (seq bigserial PRIMARY KEY, person bytea NOT NULL, at_ms bigint)",
)
_FIND = "SELECT person, wrapped FROM token_keys WHERE person = ANY(%s)"
_ADD = "INSERT INTO token_keys SELECT * FROM unnest(%s::bytea[], %s::bytea[]) ON CONFLICT DO NOTHING"
_PUT = "INSERT INTO token_meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_PAGE = "SELECT person, wrapped FROM token_keys WHERE person > %s ORDER BY person LIMIT %s"
_REPLACE = (
    "UPDATE token_keys AS k SET wrapped = c.after FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[]) "
    "AS c (person, before, after) WHERE k.person = c.person AND k.wrapped = c.before"
)
# Who adds keys and who rotates do not meet: those who add go on beside each other.
_SHARED = "SELECT value FROM token_meta WHERE name = 'master' FOR SHARE"
_ALONE = "SELECT value FROM token_meta WHERE name = 'master' FOR UPDATE"


class PostgresTokenStore(TokenStore):
    """Keys in a schema of a database.

    Args:
        place: The database and the schema; that is made where there is none.
        master: The master key.
    """

    def __init__(self, place: DatabaseAddress, master: MasterKey) -> None:
        super().__init__(master)
        self.place = place

    @property
    def name(self) -> str:
        """The database."""
        return self.place.name

    def open(self) -> KeyRows:
        """A connection, or errors as those of psycopg."""
        return _PostgresRows(self.place, self.master)


def _master(db: Connection, query: str) -> bytes:
    row = db.execute(query.encode()).fetchone()
    return b"" if row is None else bytes(row[0])


class _PostgresRows(KeyRows):
    def __init__(self, place: DatabaseAddress, master: MasterKey) -> None:
        self._place = place
        self._held: Connection | None = None
        with translated_errors(place, writing=True, opening=True), place.connect() as db, db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock_key(),))
            db.execute(f'CREATE SCHEMA IF NOT EXISTS "{place.schema}"'.encode())
            for each in _TABLES:
                db.execute(each.encode())
            db.execute("INSERT INTO token_meta VALUES ('master', %s) ON CONFLICT DO NOTHING", (master.check,))

    def generation(self) -> int:
        with self._connection(writing=False) as db:
            row = db.execute("SELECT coalesce(max(seq), 0) FROM token_destroyed").fetchone()
            return int(row[0]) if row is not None else 0

    def find(self, person_ids: Sequence[bytes]) -> Mapping[bytes, bytes]:
        with self._connection(writing=False) as db:
            rows = db.execute(_FIND, (list(person_ids),)).fetchall()
            return {bytes(person): bytes(wrapped) for person, wrapped in rows}

    def add(self, rows: Sequence[tuple[bytes, bytes]], master: bytes) -> bool:
        # In one order, so that two processes with the same persons do not wait for each other.
        ordered = sorted(rows)
        with self._connection(writing=True) as db, db.transaction():
            if _master(db, _SHARED) != master:
                return False
            db.execute(_ADD, ([person for person, _ in ordered], [wrapped for _, wrapped in ordered]))
            return True

    def meta(self) -> Mapping[str, bytes]:
        with self._connection(writing=False) as db:
            rows = db.execute("SELECT name, value FROM token_meta").fetchall()
            return {str(name): bytes(value) for name, value in rows}

    def change_meta(self, master: bytes, put: Mapping[str, bytes], drop: Sequence[str] = ()) -> bool:
        with self._connection(writing=True) as db, db.transaction():
            if _master(db, _ALONE) != master:
                return False
            db.execute("DELETE FROM token_meta WHERE name = ANY(%s)", (list(drop),))
            for each in put.items():
                db.execute(_PUT, each)
            return True

    def page(self, after: bytes, count: int) -> Sequence[tuple[bytes, bytes]]:
        with self._connection(writing=False) as db:
            rows = db.execute(_PAGE, (after, count)).fetchall()
            return [(bytes(person), bytes(wrapped)) for person, wrapped in rows]

    def replace(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        with self._connection(writing=True) as db, db.transaction():
            db.execute(_REPLACE, tuple(map(list, zip(*sorted(rows), strict=True))))

    def scour(self) -> None:
        with self._connection(writing=True) as db:
            db.execute("VACUUM FULL token_keys")
            db.execute("VACUUM FULL token_meta")

    def destroy(self, person_id: bytes, now_ms: int) -> bool:
        with self._connection(writing=True) as db:
            with db.transaction():
                there = db.execute("DELETE FROM token_keys WHERE person = %s", (person_id,)).rowcount > 0
                db.execute("INSERT INTO token_destroyed (person, at_ms) VALUES (%s, %s)", (person_id, now_ms))
            db.execute("VACUUM token_keys")  # the row itself is there until then
            return there

    def close(self) -> None:
        if self._held is not None:
            self._held.close()

    @contextmanager
    def _connection(self, *, writing: bool) -> Iterator[Connection]:
        with translated_errors(self._place, writing=writing):
            if self._held is None or self._held.closed:
                self._held = self._place.connect()
            try:
                yield self._held
            except BaseException:
                self._held.close()
                raise
