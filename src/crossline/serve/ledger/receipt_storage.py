"""How a ledger stores receipts, and how it forgets them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import orjson

from crossline.serve.ledger.receipts import BasisText

# Parts that most receipts have alike: kept once for all of them.
OF_BASIS = ("rules", "rules_digest", "policy_digest", "lists", "models")
# Kept as the answer, byte for byte as it was sent.
OF_ANSWER = "decision"
_UNANSWERED = """DELETE FROM answers WHERE rowid IN
    (SELECT rowid FROM answers WHERE body IS NULL AND claimed_ms < ? ORDER BY claimed_ms LIMIT ?)"""


def keep_receipt(
    connection: sqlite3.Connection, decision_id: str, receipt: Mapping[str, Any], basis: BasisText, now_ms: int
) -> None:
    """Store a receipt, without the fields of its answer; ``basis``: what was in force for it."""
    added = "INSERT INTO bases VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
    connection.execute(added, (basis.digest, basis.body))
    rest = orjson.dumps({name: value for name, value in receipt.items() if name not in {*OF_BASIS, OF_ANSWER}})
    place = (receipt["replica"], receipt["sequence"], decision_id, receipt["digest"])
    connection.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?)", (*place, basis.digest, rest, now_ms))


def remove_oldest(connection: sqlite3.Connection, before_ms: int, most: int) -> int:
    """Remove at most ``most`` of what was answered, or claimed and never answered, before ``before_ms``."""
    gone = 0
    chains = [row[0] for row in connection.execute("SELECT replica FROM chains ORDER BY replica")]
    for replica in chains:
        # From the beginning of the chain up to the first receipt that is young enough, whatever the clock did.
        oldest = "SELECT sequence, digest, decision_id, at_ms FROM receipts WHERE replica = ? ORDER BY sequence LIMIT ?"
        for sequence, digest, decision_id, at_ms in connection.execute(oldest, (replica, most - gone)).fetchall():
            if at_ms >= before_ms:
                break
            connection.execute("DELETE FROM receipts WHERE replica = ? AND sequence = ?", (replica, sequence))
            connection.execute("DELETE FROM answers WHERE decision_id = ?", (decision_id,))
            connection.execute("DELETE FROM revisions WHERE decision_id = ?", (decision_id,))
            connection.execute(
                "UPDATE chains SET gone_sequence = ?, gone_digest = ? WHERE replica = ?", (sequence, digest, replica)
            )
            gone += 1
    if gone < most:
        gone += connection.execute(_UNANSWERED, (before_ms, most - gone)).rowcount
    return gone
