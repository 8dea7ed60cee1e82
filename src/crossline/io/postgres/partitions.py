"""Creates monthly partitions as needed; other rows go to the default partition.

No delivery waits for a partition. Where one cannot be created now (a long query reads the default partition, or the
user may create no tables), the rows of its month go to the default partition, and move once it is created. Times come
from records, so only months near today get a partition: a record of the year 9999 creates no table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import date

import psycopg
from psycopg import sql

from crossline.io.postgres.client import Connection, DatabaseAddress
from crossline.io.postgres.rows import PARTITIONED
from crossline.logs import get_logger

MONTHS_BACK = 120
MONTHS_AHEAD = 2
LOCK_MS = 2_000  # how long a delivery waits for those who read
AGAIN_S = 60.0

# Somebody reads the default partition, the user may make no tables, or one of that name stands detached.
_IN_THE_WAY = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.DuplicateTable,
)

log = get_logger(__name__)

Month = tuple[str, date]  # a table, and the first day of a month


class Partitions:
    """The partitions of one schema, as far as this process knows them."""

    def __init__(self, place: DatabaseAddress) -> None:
        self._place = place
        self._known: set[Month] = set()
        self._not_before_s: dict[Month, float] = {}

    def forget(self) -> None:
        """Drop what is known of the partitions: another process may have changed them."""
        self._known.clear()
        self._not_before_s.clear()

    def ensure(self, connection: Connection, wanted: Iterable[Month], today: date) -> None:
        """Make those of ``wanted`` that are near ``today``, as far as that can be done now."""
        first, last = shift_months(today, -MONTHS_BACK), shift_months(today, MONTHS_AHEAD)
        now_s = time.monotonic()
        near = (each for each in wanted if each not in self._known and first <= each[1] <= last)
        missing = {each for each in near if self._not_before_s.get(each, now_s) <= now_s}
        if not missing:
            return
        self._known |= _there(connection, self._place)
        for table, month in sorted(missing - self._known):
            try:
                _make(connection, self._place, table, month)
                self._known.add((table, month))
            except _IN_THE_WAY as error:
                self._later(table, month, error)

    def _later(self, table: str, month: date, error: psycopg.Error) -> None:
        self._not_before_s[table, month] = time.monotonic() + AGAIN_S
        log.warning(
            "a partition cannot be made now; its rows go to the default partition and move later",
            store=self._place.name,
            table=table,
            month=f"{month:%Y-%m}",
            error=" ".join(str(error).split()),
        )


def shift_months(day: date, months: int) -> date:
    """The first day of the month so many months on."""
    number = day.year * 12 + day.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def partition_name(table: str, month: date) -> str:
    """Of which partition holds a month."""
    return f"{table}_y{month:%Y}m{month:%m}"


def _there(connection: Connection, place: DatabaseAddress) -> set[Month]:
    query = """SELECT p.relname, c.relname FROM pg_inherits AS i
        JOIN pg_class AS p ON p.oid = i.inhparent JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE p.relnamespace = to_regnamespace(%s)"""
    found = set()
    for table, name in connection.execute(query, (f'"{place.schema}"',)).fetchall():
        with suppress(ValueError):
            year, month = name.removeprefix(f"{table}_y").split("m")
            found.add((table, date(int(year), int(month), 1)))
    return found


def _make(connection: Connection, place: DatabaseAddress, table: str, month: date) -> None:
    """Create it, and move its rows from the default partition, in one transaction."""
    parent, other = sql.Identifier(table), sql.Identifier(f"{table}_default")
    part, column = sql.Identifier(partition_name(table, month)), sql.Identifier(PARTITIONED[table])
    bounds = [sql.Literal(f"{each:%Y-%m-%d} 00:00:00+00") for each in (month, shift_months(month, 1))]
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock_key(),))
        if (table, month) in _there(connection, place):
            return
        # Not PARTITION OF, which would wait for everybody who reads any part of the table.
        connection.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)").format(part, parent)
        )
        connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE").format(other))
        moved = sql.SQL(
            "WITH moved AS (DELETE FROM {other} WHERE {column} >= {low} AND {column} < {high} RETURNING *) "
            "INSERT INTO {part} SELECT * FROM moved"
        ).format(other=other, column=column, low=bounds[0], high=bounds[1], part=part)
        connection.execute(moved)
        connection.execute(
            sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(parent, part, *bounds)
        )
