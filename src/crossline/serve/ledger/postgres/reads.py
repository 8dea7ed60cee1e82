"""What a ledger in PostgreSQL has, for routes and for checks: read as one in SQLite is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import orjson
import psycopg

from crossline.io.net.deadline import Deadline
from crossline.io.postgres.client import (
    Connection,
    DatabaseAddress,
    address_of,
    address_of_url,
    connection_deadline,
    translated_errors,
)
from crossline.io.postgres.text_escapes import indexed
from crossline.serve.ledger.base import AnswerCounts, LedgerAnswer
from crossline.serve.ledger.postgres.schema import PostgresRows, check_ledger_schema
from crossline.serve.ledger.queries import (
    LedgerCheck,
    check_chains,
    read_answer,
    read_counts,
    read_differing,
    read_figures,
    read_receipt,
    read_unsettled,
)
from crossline.serve.ledger.signing import Verifier
from crossline.settings.postgres import LEDGER_SCHEMA, LedgerSettings

READ_S_MAX = 10.0
T = TypeVar("T")


def answer_in(connection: Connection, where: str, values: Sequence[str]) -> LedgerAnswer | None:
    """The answer that ``where`` finds, with its ids as they were asked about: a text of the table may be cut."""
    found = read_answer(PostgresRows(connection), where, values)
    if found is None:
        return None
    body = orjson.loads(found.body)
    return replace(found, record_id=str(body["record_id"]), decision_id=str(body["decision_id"]))


def counts_in(connection: Connection) -> AnswerCounts:
    """How much was answered, by all processes together."""
    return read_counts(PostgresRows(connection))


def receipt_in(connection: Connection, name: str) -> dict[str, Any] | None:
    """The receipt of the answer with this id, as the table has that."""
    return read_receipt(PostgresRows(connection), name)


class PostgresReads:
    """What was answered, for routes: one connection for all of them, whichever thread asks; see ``LedgerReads``."""

    def __init__(self, place: DatabaseAddress) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def _read(self, ask: Callable[[Connection], T]) -> T:
        with self._lock, translated_errors(self._place, writing=False):
            if self._connection is None or self._connection.closed:
                self._connection = self._place.connect()
                self._connection.execute("SET default_transaction_read_only = on")
            try:
                with connection_deadline(self._connection, Deadline(READ_S_MAX)):
                    return ask(self._connection)
            except psycopg.Error:
                self._connection.close()
                raise

    def answer(self, decision_id: str) -> LedgerAnswer | None:
        """The answer with this id."""
        return self._read(lambda connection: answer_in(connection, "decision_id = ?", (indexed(decision_id),)))

    def by_record(self, stream: str, record_id: str) -> LedgerAnswer | None:
        """The answer about a record."""
        given = (stream, indexed(record_id))
        return self._read(lambda connection: answer_in(connection, "stream = ? AND record_id = ?", given))

    def receipt(self, decision_id: str) -> dict[str, Any] | None:
        """The receipt of an answer."""
        return self._read(lambda connection: receipt_in(connection, indexed(decision_id)))

    def unsettled(self, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
        """See ``read_unsettled``; what ids were cut in the table is left out."""
        found = self._read(lambda connection: read_unsettled(PostgresRows(connection), since_ms, most))
        return [each for each in found if "…" not in each[1]]

    def differing(self, since_ms: int, most: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """See ``read_differing``."""
        return self._read(lambda connection: read_differing(PostgresRows(connection), since_ms, most))

    def figures(self, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        """See ``read_figures``."""
        return self._read(lambda connection: _figures(connection, records))

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def _figures(connection: Connection, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """By the ids that were asked for: a text of the table may be cut."""
    asked = {(stream, indexed(record_id)): (stream, record_id) for stream, record_id in records}
    return {asked[each]: found for each, found in read_figures(PostgresRows(connection), asked).items()}


def ledger_at(where: object) -> DatabaseAddress:
    """The place of a ledger that settings name, or an address without a password.

    Raises UsageError, or PermanentError where the password is not to be had.
    """
    if isinstance(where, LedgerSettings):
        return address_of(where)
    place = address_of_url(str(where))
    return place if "schema=" in str(where) else replace(place, schema=LEDGER_SCHEMA)


@contextmanager
def reading(place: DatabaseAddress) -> Iterator[PostgresRows]:
    """One moment of the ledger at ``place``, read-only. Raises StateError if there is none."""
    with translated_errors(place, writing=False, opening=True), place.connect() as connection:
        check_ledger_schema(connection, place)
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield PostgresRows(connection)


def check_postgres(place: DatabaseAddress, verifier: Verifier | None = None) -> LedgerCheck:
    """As ``check_ledger``, of a ledger in PostgreSQL."""
    with reading(place) as rows:
        return check_chains(rows, verifier)
