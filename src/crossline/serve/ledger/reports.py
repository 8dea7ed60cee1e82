"""Reports of a ledger that this process does not serve: its check, a receipt, the answers since."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from crossline.basics.errors import StateError
from crossline.serve.ledger.queries import LedgerCheck, LedgerRows, check_chains, read_receipt
from crossline.serve.ledger.schema import check_schema, reported
from crossline.serve.ledger.signing import Verifier
from crossline.settings.postgres import LedgerSettings

# A file, a database as settings name it, or as its address does.
LedgerPlace = str | Path | LedgerSettings
_POSTGRES = ("postgresql://", "postgres://")


def check_ledger(path: LedgerPlace, verifier: Verifier | None = None) -> LedgerCheck:
    """Check each chain of a ledger, which may be in use, from the oldest receipt that it has to the last.

    Raises StateError if it is no ledger, RetryableError where it cannot be read now.
    """
    with _read_only(path) as connection:
        return check_chains(connection, verifier)


def receipt_of(path: LedgerPlace, decision_id: str) -> dict[str, Any] | None:
    """The receipt of a decision, from a ledger that may be in use; None if it has none."""
    with _read_only(path) as connection:
        return read_receipt(connection, decision_id)


def answered_later(path: LedgerPlace, stream: str, record_id: str, ids: Collection[str]) -> frozenset[str]:
    """Of ``ids`` those that were answered after a record, or were claimed and are not answered; raises as above."""
    asked = "SELECT answered_ms FROM answers WHERE stream = ? AND record_id = ?"
    with _read_only(path) as connection:
        mine = connection.execute(asked, (stream, record_id)).fetchone()
        if mine is None or mine[0] is None:
            return frozenset()
        found = {name: connection.execute(asked, (stream, name)).fetchone() for name in {*ids} - {record_id}}
    return frozenset(name for name, row in found.items() if row is not None and (row[0] is None or row[0] > mine[0]))


@contextmanager
def _read_only(where: LedgerPlace) -> Iterator[LedgerRows]:
    """One moment of the ledger."""
    if isinstance(where, LedgerSettings) or str(where).startswith(_POSTGRES):
        from crossline.serve.ledger.postgres.reads import ledger_at, reading  # noqa: PLC0415 - an extra that few have

        with reading(ledger_at(where)) as rows:
            yield rows
        return
    path = Path(where)
    if not path.is_file():
        raise StateError(f"found no ledger {path}; expected the file that crossline serve writes")
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with reported(path), closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        check_schema(connection, path)
        connection.execute("BEGIN")
        yield connection
