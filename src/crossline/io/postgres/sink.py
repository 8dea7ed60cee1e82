"""The sink of a PostgreSQL database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, Self

import numpy as np
import psycopg
from psycopg import sql

from crossline.basics.errors import SinkError, StateError
from crossline.basics.times import instant_text
from crossline.io.net.deadline import Deadline
from crossline.io.postgres.client import Connection, DatabaseAddress, address_of, connection_deadline, translated_errors
from crossline.io.postgres.delivered import IDENTITY_BYTES, START, delivered_rows
from crossline.io.postgres.migrate import migrate
from crossline.io.postgres.partitions import Partitions
from crossline.io.postgres.rows import PARTITIONED, rows_of
from crossline.io.postgres.stored_rows import StoredRows
from crossline.io.postgres.text_escapes import escape
from crossline.io.sinks.base import Delivery, wall_clock_ms
from crossline.logs import get_logger
from crossline.settings.postgres import PostgresSettings

ANSWER_S_MAX = 120.0  # that a batch may take at first; a server that is slower gets twice as long the next time
PREPARE_S_MAX = 3_600.0  # tables of an earlier version may be large
_CLOCK_MS_MAX = 32_503_680_000_000  # in the year 3000

log = get_logger(__name__)


class PostgresSink:
    """Stores every delivery in one transaction: all of it or nothing.

    Guarantee: exactly once, over kills of either side and redeliveries, whatever the numbers of the batches. What was
    delivered stands in the table ``delivered`` by a digest of pipeline, kind and id, within the same transaction; the
    first one delivered stays. A delivery is taken for new at first. Where a digest is there already, the transaction is
    undone, and another one asks for each digest. Where a connection breaks at the commit, its outcome is unknown: the
    delivery is repeated, and skips what is stored. Shadow alerts and those of rules that feed only other rules are
    stored as well. Several pipelines may share a schema. As durable as the server's ``synchronous_commit`` makes it.

    An unreachable server holds the batch, also at the start. A server that rejects the user, or has tables of a newer
    version, ends the start.
    """

    def __init__(self, place: DatabaseAddress, pipeline: str, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.place = place
        self.pipeline = pipeline
        self._clock_ms = clock_ms
        self._connection: Connection | None = None
        self._partitions = Partitions(place)
        self._run_id: int | None = None
        self._stop = threading.Event()
        self._answer_s = ANSWER_S_MAX
        self._is_open = False
        self._again = False  # whether the last delivery had rows that were stored before

    @classmethod
    def from_settings(cls, settings: PostgresSettings, pipeline: str) -> Self:
        """The schema that ``settings`` name; raises PermanentError where its password is not to be had."""
        return cls(address_of(settings), pipeline)

    def open(self) -> None:
        """Connect, and bring the tables to this version. The first delivery retries where no server answers.

        Raises StateError where the schema is of a newer crossline or of something else, PermanentError where the server
        does not let us in.
        """
        self._is_open = True
        try:
            with translated_errors(self.place, writing=True, opening=True):
                self._connected()
        except SinkError as error:
            log.warning("the store does not answer yet; batches are held until it does", error=str(error))

    def use_cancel_token(self, stop: threading.Event) -> None:
        """Wait for the server no longer than a second once ``stop`` is set."""
        self._stop = stop

    def deliver(self, delivery: Delivery) -> None:
        """Store ``delivery``; what is there already stays as it is.

        Raises SinkError where the server is away, or does not take it now.
        """
        if not self._is_open:
            raise StateError(f"the store {self.place.name} is not open")
        try:
            # A clock that jumps must not make months that no calendar has.
            now_ms = min(max(self._clock_ms(), 0), _CLOCK_MS_MAX)
            rows = rows_of(delivery, now_ms)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateError(f"the store {self.place.name} cannot hold what it was given: {error!r}") from error
        deadline = Deadline(self._answer_s, self._stop)
        try:
            with translated_errors(self.place, writing=True):
                connection = self._connected()
                deadline.begin()
                with connection_deadline(connection, deadline):
                    self._store(connection, rows, now_ms)
            self._answer_s = ANSWER_S_MAX
        except BaseException:
            if not deadline.left_s():
                self._answer_s *= 2
            # Whatever it was: the next attempt begins with a connection of which all is known.
            self._drop()
            raise

    def close(self) -> None:
        """Record the end of the run and close the connection; safe to call twice."""
        connection, self._is_open = self._connection, False
        try:
            if connection is not None and not connection.closed and self._run_id is not None:
                ending = threading.Event()
                ending.set()
                with (
                    translated_errors(self.place, writing=True),
                    connection_deadline(connection, Deadline(ANSWER_S_MAX, ending)),
                ):
                    ended = "UPDATE runs SET ended_at = %s WHERE run_id = %s"
                    connection.execute(ended, (instant_text(self._clock_ms()), self._run_id))
        except SinkError as error:
            log.warning("the end of the run could not be noted", error=str(error))
        finally:
            self._run_id = None
            self._drop()

    def _connected(self) -> Connection:
        """The connection, opened anew where there is none, after the migration."""
        if self._connection is None or self._connection.closed:
            connection = self.place.connect(self._stop)
            try:
                with connection_deadline(connection, Deadline(PREPARE_S_MAX, self._stop)):
                    migrate(connection, self.place)
                    self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: Connection) -> None:
        if self._run_id is None:
            run = "INSERT INTO runs (pipeline, started_at) VALUES (%s, %s) RETURNING run_id"
            row = connection.execute(run, (escape(self.pipeline), instant_text(self._clock_ms()))).fetchone()
            self._run_id = int(row[0]) if row is not None else None
        self._partitions.forget()

    def _store(self, connection: Connection, rows: Sequence[StoredRows], now_ms: int) -> None:
        today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
        of_months = ((each.table, month) for each in rows if each.table in PARTITIONED for month in set(each.months))
        wanted = {(table, date.fromisoformat(month)) for table, month in of_months}
        self._partitions.ensure(connection, wanted, today)
        if not self._again:
            try:
                with connection.transaction():
                    for each in rows:
                        _insert_fresh(connection, each)
            except psycopg.errors.UniqueViolation:  # some are stored already, or a constraint is somebody else's
                self._again = True
            else:
                return
        with connection.transaction():
            new = [_insert(connection, each) for each in rows]
        self._again = not all(new)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


# In the order of the identities: two that deliver the same wait for each other, and not in a ring.
_TAKE = """WITH fresh AS (INSERT INTO delivered (identity, month, at)
    SELECT identity, month, at FROM unnest(%s::uuid[], %s::date[], %s::timestamptz[]) AS given (identity, month, at)
    ORDER BY identity ON CONFLICT (identity) DO NOTHING RETURNING identity)
    SELECT string_agg(uuid_send(identity), ''::bytea) FROM fresh"""


def _insert(connection: Connection, given: StoredRows) -> bool:
    """Note the rows as delivered, and copy those that were not so before, in their order; whether all were not."""
    instants = np.datetime_as_string(np.datetime64(START.replace(tzinfo=None), "us") + given.micros, timezone="UTC")
    with connection.cursor(binary=True) as cursor:
        columns = ([each.hex() for each in given.identities], given.months, instants.tolist())
        cursor.execute(_TAKE, [f"{{{','.join(each)}}}" for each in columns])
        row = cursor.fetchone()
        fresh: bytes = (row[0] if row is not None else None) or b""
        taken = {fresh[at : at + IDENTITY_BYTES] for at in range(0, len(fresh), IDENTITY_BYTES)}
        if taken:
            _copy(cursor, given, [number for number, each in enumerate(given.identities) if each in taken])
    return len(taken) == len(given.identities)


def _insert_fresh(connection: Connection, given: StoredRows) -> None:
    """As ``_insert``, of rows none of which was delivered before: a copy takes the server a third of what _TAKE takes.

    Raises UniqueViolation where one was; nothing of the transaction stands then.
    """
    with connection.cursor() as cursor:
        with cursor.copy("COPY delivered (identity, month, at) FROM STDIN (FORMAT binary)") as copy:
            copy.write(delivered_rows(given.identities, given.months, given.micros))
        _copy(cursor, given)


def _copy(cursor: psycopg.Cursor[tuple[Any, ...]], given: StoredRows, numbers: Sequence[int] | None = None) -> None:
    columns = sql.SQL(", ").join(map(sql.Identifier, given.columns))
    copying = sql.SQL("COPY {} ({}) FROM STDIN{}").format(sql.Identifier(given.table), columns, sql.SQL(given.form))
    with cursor.copy(copying) as copy:
        given.write(copy, numbers)
