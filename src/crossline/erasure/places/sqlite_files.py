"""SQLite files: the store of a sink, the ledger of receipts and answers, labels and cases.

Deleted content is overwritten (``secure_delete``), the write-ahead log is emptied, and the file is built anew where
nobody else has it open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.basics.errors import RetryableError, StateError
from crossline.erasure.place import Counts
from crossline.erasure.rows import GONE, treat
from crossline.erasure.subject import Subject
from crossline.io.sqlite.schema import index_keys_anew

BUSY_S = 30.0
_LEFT_OUT = ("sqlite_",)

RowRule = Callable[[Subject, str, dict[str, Any]], Any]  # subject, table, row: see ``rows.treat``
After = Callable[[sqlite3.Connection], None]


def usual(subject: Subject, table: str, row: dict[str, Any]) -> Any:  # noqa: ARG001 - as other rules
    """Rows of the person go."""
    return treat(subject, row)


@dataclass(slots=True)
class SqlitePlace:
    """The tables of a SQLite file. One transaction changes all of them.

    Attributes:
        name: The place's name.
        path: The file; one that is not there has no rows.
        rule: What becomes of a row.
        before: Called within the transaction before tables are changed, and ``after`` at its end.
        needs_stop: Whether another process may hold what it read in memory.
    """

    name: str
    path: Path
    rule: RowRule = usual
    after: After = lambda _: None
    needs_stop: bool = False

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        if not self.path.exists():
            return Counts()
        with self._errors(), closing(self._connected()) as connection:
            connection.execute("BEGIN")
            return self._all(subject, connection, change=False).of_file(self.path.stat().st_size)

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. Readers go on; writers wait."""
        if not self.path.exists():
            return Counts()
        with self._errors(), closing(self._connected()) as connection:
            size = self.path.stat().st_size
            connection.execute("BEGIN IMMEDIATE")
            with _without_triggers(connection):
                counts = self._all(subject, connection, change=True)
                if counts.found:
                    self.after(connection)
            connection.execute("COMMIT")
            # Also where nothing is found: an erasure may have been killed before it came here.
            with suppress(sqlite3.OperationalError):  # somebody reads it: the content was overwritten
                connection.execute("VACUUM")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise RetryableError(f"{self.path}: somebody reads it, and its -wal file has pages of before")
        return counts.of_file(size)

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def _all(self, subject: Subject, connection: sqlite3.Connection, *, change: bool) -> Counts:
        counts = Counts()
        for table, key in _tables(connection):
            counts += self._table(subject, connection, table, key, change=change)
        return counts

    def _table(
        self, subject: Subject, connection: sqlite3.Connection, table: str, key: tuple[str, ...], *, change: bool
    ) -> Counts:
        gone = changed = kept = 0
        marks = " AND ".join(f"{quoted(name)} IS ?" for name in key)
        reading = connection.cursor()
        columns = ", ".join(f"{quoted(name)} AS {quoted(f'#{number}')}" for number, name in enumerate(key))
        reading.execute(f"SELECT *, {columns} FROM {quoted(table)}")  # noqa: S608 - names of the schema
        names = [each[0] for each in reading.description][: -len(key)]
        after: list[tuple[Any, tuple[Any, ...]]] = []
        for values in reading:
            row = dict(zip(names, values, strict=False))
            new = self.rule(subject, table, row)
            gone, kept = gone + (new is GONE), kept + (new is row)
            changed += new is not GONE and new is not row
            if new is not row and change:
                after.append((new if new is GONE else _changes(row, new), values[len(names) :]))
        for new, place in after:
            if new is GONE:
                connection.execute(f"DELETE FROM {quoted(table)} WHERE {marks}", place)  # noqa: S608 - as above
                continue
            sets = ", ".join(f"{quoted(name)} = ?" for name in new)
            update = f"UPDATE OR REPLACE {quoted(table)} SET {sets} WHERE {marks}"  # noqa: S608 - as above
            connection.execute(update, (*new.values(), *place))
        return Counts(gone, changed, kept)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise RetryableError(f"{self.path} takes nothing now: {error}; run the erasure again") from error
        except sqlite3.DatabaseError as error:
            raise StateError(f"{self.path} is not a readable SQLite file: {error}; put it back from a copy") from error


def store_place(name: str, path: Path) -> SqlitePlace:
    """The store of a sink. Of an alert that went, the index has no other field of its key either."""
    return SqlitePlace(name, path, after=index_keys_anew)


def quoted(name: str) -> str:
    """A name of the schema, as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _changes(row: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in new.items() if value != row[name]}


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tables, each with the columns by which a row is known; those of a search index are left out."""
    found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
    virtual = [name for name, sql in found if (sql or "").upper().startswith("CREATE VIRTUAL")]
    for name, sql in found:
        if name.startswith(_LEFT_OUT) or name in virtual or any(name.startswith(f"{each}_") for each in virtual):
            continue
        if "WITHOUT ROWID" in (sql or "").upper():
            about = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
            yield name, tuple(each[1] for each in sorted(about, key=lambda each: each[5]) if each[5])
        else:
            yield name, ("rowid",)


@contextmanager
def _without_triggers(connection: sqlite3.Connection) -> Iterator[None]:
    """Labels and events of cases are only added, as triggers have it; within the transaction they are gone."""
    found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in found:
        connection.execute(f"DROP TRIGGER {quoted(name)}")
    yield
    for _, sql in found:
        connection.execute(sql)
