"""Tables of a PostgreSQL schema: the store of a sink, the ledger of several APIs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crossline.erasure.place import Counts
from crossline.erasure.places.sqlite_files import RowRule, usual
from crossline.erasure.rows import GONE, treat
from crossline.erasure.subject import Subject
from crossline.io.postgres.client import DatabaseAddress, translated_errors

if TYPE_CHECKING:
    from psycopg import Connection

KEPT = ("rule_events", "batches", "runs", "delivered", "meta")
_PART_ROWS = 5_000
_TABLES = """SELECT c.relname, c.oid::bigint, coalesce(p.relname, c.relname) FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
    LEFT JOIN pg_class AS p ON p.oid = i.inhparent WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY 3, 1"""
_COLUMNS = """SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_JSON = ("json", "jsonb")


def store_row(subject: Subject, table: str, row: dict[str, Any]) -> Any:
    """What becomes of a row of a store."""
    return treat(subject, row, keeps=table in KEPT)


@dataclass(slots=True)
class PostgresPlace:
    """The tables of a schema. One transaction changes all of them; then they are written anew (``VACUUM FULL``).

    Attributes:
        name: The place's name.
        address: The database.
        rule: What becomes of a row; the table is named as its parent is.
        needs_stop: Whether a running pipeline may bring rows back.
    """

    name: str
    address: DatabaseAddress
    rule: RowRule = usual
    needs_stop: bool = False

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        with translated_errors(self.address, writing=False), self.address.connect() as connection:
            total = Counts()
            with connection.transaction():
                for table, _, parent in self._tables(connection):
                    total += self._table(subject, connection, table, parent, change=False)
            return total

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``."""
        with translated_errors(self.address, writing=True), self.address.connect() as connection:
            total, changed = Counts(), list[str]()
            with connection.transaction():
                for table, size, parent in self._tables(connection):
                    counts = self._table(subject, connection, table, parent, change=True)
                    total += counts.of_file(size)
                    if counts.found:
                        changed.append(table)
            for table in changed:
                connection.execute(_sql("VACUUM FULL {}", self.address.schema, table))
            return total

    def _tables(self, connection: Connection[Any]) -> list[tuple[str, int, str]]:
        found = connection.execute(_TABLES, (self.address.schema,)).fetchall()
        return [(name, self._size(connection, oid), parent) for name, oid, parent in found]

    def _size(self, connection: Connection[Any], oid: int) -> int:
        found = connection.execute("SELECT pg_total_relation_size(%s::oid::regclass)", (oid,)).fetchone()
        return 0 if found is None else int(found[0])

    def _table(self, subject: Subject, connection: Connection[Any], table: str, parent: str, *, change: bool) -> Counts:
        types = self._types(connection, table)
        gone = changed = kept = 0
        after: list[tuple[Any, str]] = []
        for place, row in self._rows(connection, table, types):
            new = self.rule(subject, parent, row)
            gone, kept = gone + (new is GONE), kept + (new is row)
            changed += new is not GONE and new is not row
            if new is not row and change:
                after.append((new if new is GONE else {n: v for n, v in new.items() if v != row[n]}, place))
        for new, place in after:
            self._write(connection, table, types, new, place)
        return Counts(gone, changed, kept)

    def _types(self, connection: Connection[Any], table: str) -> dict[str, str]:
        oid = f"{_name(self.address.schema)}.{_name(table)}"
        rows = connection.execute(_COLUMNS.replace("%s::oid", "%s::regclass"), (oid,)).fetchall()
        return dict(rows)

    def _rows(
        self, connection: Connection[Any], table: str, types: dict[str, str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Rows with where they stand; JSON as text, so that numbers stay as they are."""
        columns = ", ".join(f"{_name(name)}::text" if kind in _JSON else _name(name) for name, kind in types.items())
        with connection.cursor(name="crossline_erasure") as cursor:
            cursor.itersize = _PART_ROWS
            select = f"SELECT ctid::text, {columns} FROM {{}}"  # noqa: S608 - names of the catalog, quoted
            cursor.execute(_sql(select, self.address.schema, table))
            for place, *values in cursor:
                yield place, dict(zip(types, values, strict=True))

    def _write(self, connection: Connection[Any], table: str, types: dict[str, str], new: Any, place: str) -> None:
        if new is GONE:
            connection.execute(_sql("DELETE FROM {} WHERE ctid = %s::tid", self.address.schema, table), (place,))
            return
        sets = ", ".join(f"{_name(name)} = %s{f'::{types[name]}' if types[name] in _JSON else ''}" for name in new)
        update = f"UPDATE {{}} SET {sets} WHERE ctid = %s::tid"  # noqa: S608 - as above
        connection.execute(_sql(update, self.address.schema, table), (*new.values(), place))


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _sql(text: str, schema: str, table: str) -> Any:
    """SQL with the name of a table; names are of the catalog, and quoted."""
    return text.format(f"{_name(schema)}.{_name(table)}")
