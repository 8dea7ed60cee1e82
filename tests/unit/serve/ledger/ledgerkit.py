"""Questions, answers and ledgers for tests, none of whose values the code under test has made."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from crossline.serve.decisions.values import Basis, SubmittedRecord
from crossline.serve.ledger.base import DecisionLedger
from crossline.serve.ledger.postgres.ledger import PostgresLedger
from crossline.serve.ledger.receipts import ReceiptEntry

Open = Callable[..., PostgresLedger]
Opened = TypeVar("Opened", bound=DecisionLedger)


class Clock:
    """Stands until it is moved."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@contextmanager
def opening(make: Callable[..., Opened]) -> Iterator[Callable[..., Opened]]:
    """``make``, as often as a test wants; all that it made is closed at the end."""
    with ExitStack() as stack:

        def opened(**more: Any) -> Opened:
            ledger = make(**more)
            stack.callback(ledger.close)
            return ledger

        yield opened


def outcomes(ledger: DecisionLedger, *questions: SubmittedRecord) -> list[str]:
    """Of claims."""
    return [each.outcome for each in ledger.claim(questions)]


BASIS = Basis(
    "b1",
    2,
    "p" * 8,
    "r" * 8,
    rules=[{"rule_id": "card_burst", "version": 3, "digest": "d" * 8}],
    lists={"watched": "l" * 8},
    models={"risk": "m" * 8},
)
FIGURES = {
    "card_burst": {
        "value": 10,
        "operator": ">=",
        "threshold": 10,
        "window_start": "2026-01-01T00:00:00.000Z",
        "window_end": "2026-01-01T00:01:00.000Z",
    }
}
EVIDENCE = {"card_burst": {"record_ids": ["t1", "t2"], "count": 10}}


def asked(record_id: str, body: str = "{}", stream: str = "payments") -> SubmittedRecord:
    return SubmittedRecord(
        1, stream, record_id, body.encode(), hashlib.sha256(body.encode()).hexdigest(), 1_700_000_000_000
    )


def decision_of(record_id: str, decision: str = "allow", answered: str = "peek", **more: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "decision_id": str(uuid.uuid5(uuid.NAMESPACE_URL, record_id)),
        "stream": "payments",
        "record_id": record_id,
        "decision": decision,
        "score": 0,
        "reasons": [],
        "answered": answered,
        "as_of": {"batch": 7, "age_ms": 40, "laid_over": 3},
        "degraded": [],
        **more,
    }


def entry(record_id: str, body: str = "{}", basis: Basis | None = BASIS, **more: Any) -> ReceiptEntry:
    figures, evidence = (FIGURES, EVIDENCE) if basis else (None, None)
    return ReceiptEntry(asked(record_id, body), decision_of(record_id, **more), basis, figures, evidence)


def key_files(folder: Path, name: str = "signing") -> tuple[Path, Path]:
    """A new key: the files of its private and public part."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public
