"""The ledger that settings name: a file of this machine, or a database that several machines share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crossline.serve.decisions.adapters import LedgerDecisions, SqliteReads
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.ledger.schema import LEDGER_FILE
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.settings.process.serve import ServeSettings


def ledger_of(
    settings: ServeSettings, streams: Iterable[str], pipeline: str | None = None
) -> tuple[LedgerGroup, LedgerDecisions]:
    """The ledger, and what reads it beside. Raises as the ledgers do where it cannot be opened.

    ``pipeline``: whose answers a shared one must have; None: any pipeline. The folder of a file names its pipeline.
    """
    signer = None if settings.signing_key_file is None else Signer.from_file(settings.signing_key_file)
    if settings.ledger is None:
        path = Path(settings.path) / LEDGER_FILE
        return LedgerGroup(SqliteLedger(path, signer)), LedgerDecisions(SqliteReads(path), streams)
    from crossline.io.postgres.client import address_of  # noqa: PLC0415 - an extra that few have
    from crossline.serve.ledger.postgres.ledger import LOOK_S, PostgresLedger  # noqa: PLC0415 - as above
    from crossline.serve.ledger.postgres.reads import PostgresReads  # noqa: PLC0415 - as above

    place = address_of(settings.ledger)
    group = LedgerGroup(PostgresLedger(place, signer, pipeline=pipeline), look_s=LOOK_S)
    return group, LedgerDecisions(PostgresReads(place), streams)
