"""A session of a ledger in PostgreSQL: a connection, and the slot that it holds for as long as it lives."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from crossline.basics.errors import RetryableError
from crossline.io.postgres.client import Connection, DatabaseAddress
from crossline.serve.ledger.postgres.schema import ensure_ledger, ensure_owner, slots_key
from crossline.serve.ledger.receipts import BEGINNING
from crossline.serve.ledger.slots import process_text

SLOTS_MAX = 256
# A process that is frozen within a transaction blocks others no longer; one whose machine is gone without a
# word is noticed by the server.
_SETTINGS = {
    "lock_timeout": "2s",
    "statement_timeout": "4s",
    "idle_in_transaction_session_timeout": "4s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "2",
    # Of claims alone: those lost in a power cut had no answer yet. Answers override it.
    "synchronous_commit": "off",
}
_LET_GO = "SELECT pg_advisory_unlock(%s, %s)"
_HELD = "SELECT pg_try_advisory_lock(%s, %s)"
_CHAIN = """INSERT INTO chains VALUES (%s, %s, 1, %s, 0, %s, 0, %s) ON CONFLICT (slot) DO UPDATE SET
    incarnation = chains.incarnation + 1, process = excluded.process RETURNING replica, incarnation"""


Owner = tuple[int, int]  # slot and incarnation


@dataclass(frozen=True, slots=True)
class LedgerSession:
    """``slot``, ``incarnation``: who claims and answers. ``synced``: how answers are committed."""

    connection: Connection
    replica: str
    slot: int
    incarnation: int
    synced: str

    @property
    def owner(self) -> Owner:
        """Who claims and answers."""
        return self.slot, self.incarnation


def let_go(session: LedgerSession, place: DatabaseAddress) -> None:
    """Give the slot up: others need not wait until the server has seen the end of the connection.

    Raises what psycopg raises.
    """
    session.connection.execute(_LET_GO, (slots_key(place), session.slot))


def open_session(place: DatabaseAddress, pipeline: str | None = None) -> LedgerSession:
    """A session with a slot of its own: the lowest that is free. ``pipeline``: whose answers these must be.

    Raises what psycopg raises, StateError where the schema holds something else, UsageError where it holds the answers
    of another pipeline, RetryableError where all slots are held.
    """
    connection = place.connect()
    try:
        ledger_id = ensure_ledger(connection, place)
        if pipeline is not None:
            ensure_owner(connection, place, pipeline)
        row = connection.execute("SELECT current_setting('synchronous_commit')").fetchone()
        synced = "on" if row is None or row[0] == "off" else str(row[0])
        for name, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        slot = _slot(connection, place)
        process = f"{process_text()}, host {socket.gethostname()}"
        given = (slot, f"{ledger_id}-{slot}", process, BEGINNING, BEGINNING)
        made = connection.execute(_CHAIN, given).fetchone()
        assert made is not None  # noqa: S101 - it returns the row
    except BaseException:
        connection.close()
        raise
    return LedgerSession(connection, str(made[0]), slot, int(made[1]), synced)


def _slot(connection: Connection, place: DatabaseAddress) -> int:
    key = slots_key(place)
    for number in range(SLOTS_MAX):
        row = connection.execute(_HELD, (key, number)).fetchone()
        if row is not None and row[0]:
            return number
    raise RetryableError(
        f"the ledger {place.name}: found all {SLOTS_MAX} slots held; expected fewer processes at one ledger"
    )
