"""A process that claims two ids in a ledger in PostgreSQL, and says what came of it; see ``test_postgres_ledger``."""

from __future__ import annotations

import sys

from dev.services.postgres import LocalPostgres

from crossline.io.postgres.client import address_of
from crossline.serve.ledger.postgres.ledger import PostgresLedger
from crossline.settings.postgres import LedgerSettings

from .ledgerkit import asked


def main(port: str, schema: str, password_file: str) -> None:
    given = {"host": LocalPostgres.host, "port": int(port), "user": LocalPostgres.user, "dbname": LocalPostgres.dbname}
    settings = LedgerSettings.model_validate({**given, "password_file": password_file, "schema": schema})
    ledger = PostgresLedger(address_of(settings), clock_ms=lambda: 1_000_000)
    sys.stdout.write(" ".join(each.outcome for each in ledger.claim([asked("t1"), asked("t2")])) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
