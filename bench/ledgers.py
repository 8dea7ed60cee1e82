"""The two ledgers: the time to claim an id and to store its answer, one at a time and in groups as requests make them.

``python -m bench.ledgers [--count N]``. SQLite is on the disk of the working folder. PostgreSQL is a server of ours
over loopback, which syncs its log there too. The two take turns in one run.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
import uuid
from pathlib import Path

from dev.services.postgres import LocalPostgres

from bench.report import Report, percentile
from crossline.io.postgres.client import DatabaseAddress, address_of
from crossline.serve.decisions.values import Basis, SubmittedRecord
from crossline.serve.ledger.base import DecisionLedger
from crossline.serve.ledger.postgres.ledger import PostgresLedger
from crossline.serve.ledger.receipts import ReceiptEntry
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.settings.postgres import LedgerSettings

ROUNDS = 3
GROUPS = (1, 16, 64)
BASIS = Basis("b", 1, "p" * 64, "r" * 64, rules=[{"rule_id": "burst", "version": 1, "digest": "d" * 64}])


def asked_of(count: int) -> list[SubmittedRecord]:
    """Records of ids not used before."""
    stem = uuid.uuid4().hex
    raws = [(f"{stem}-{n}", b'{"n": %d}' % n) for n in range(count)]
    return [SubmittedRecord(1, "payments", name, raw, hashlib.sha256(raw).hexdigest(), 0) for name, raw in raws]


def entry_of(asked: SubmittedRecord) -> ReceiptEntry:
    """An answer of the usual size."""
    reason = {"rule_id": "burst", "rule_version": 1, "action": "review", "score": 40, "alert_id": "a" * 64}
    body = {
        "schema_version": 1,
        "decision_id": uuid.uuid4().hex,
        "stream": asked.stream,
        "record_id": asked.record_id,
        "decision": "review",
        "score": 40,
        "reasons": [{**reason, "standing": False, "message": "10 payments by account a1 in 60 s"}],
        "answered": "peek",
        "as_of": {"batch": 7, "age_ms": 40, "laid_over": 3},
        "degraded": [],
    }
    return ReceiptEntry(asked, body, BASIS, {}, {})


def timed(ledger: DecisionLedger, group: int, count: int) -> list[float]:
    """What claiming and answering ``group`` ids took, in ms, again and again."""
    spent = []
    for _ in range(max(1, count // group)):
        asked = asked_of(group)
        entries = [entry_of(each) for each in asked]
        began_s = time.perf_counter()
        ledger.claim(asked)
        ledger.answer(entries)
        spent.append((time.perf_counter() - began_s) * 1e3)
    return spent


def place_in(server: LocalPostgres) -> DatabaseAddress:
    """A schema for a ledger."""
    given = {"host": server.host, "port": server.port, "user": server.user, "dbname": server.dbname}
    return address_of(LedgerSettings.model_validate({**given, "password_file": str(server.password_file)}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="ids per group size, ledger and round")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    count = 200 if options.quick else options.count
    report = Report("ledgers", "Ledgers: claiming ids and keeping their answers, both synced")
    with tempfile.TemporaryDirectory(dir=".") as folder, LocalPostgres() as server:
        ledgers: dict[str, DecisionLedger] = {
            "SQLite, a file": SqliteLedger(Path(folder) / "ledger.db"),
            "PostgreSQL, loopback": PostgresLedger(place_in(server)),
        }
        for ledger in ledgers.values():
            timed(ledger, 1, 50)
        spent: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for group in GROUPS:
                for name, ledger in ledgers.items():
                    spent.setdefault((name, group), []).extend(timed(ledger, group, count))
        for (name, group), each in spent.items():
            p50, p99 = percentile(each, 0.5), percentile(each, 0.99)
            report.add(
                ledger=name,
                ids_at_once=group,
                claim_and_answer_p50_ms=round(p50, 2),
                claim_and_answer_p99_ms=round(p99, 2),
                ids_per_s=round(1e3 * group * len(each) / sum(each)),
            )
        for ledger in ledgers.values():
            ledger.close()
    report.finish()


if __name__ == "__main__":
    main()
