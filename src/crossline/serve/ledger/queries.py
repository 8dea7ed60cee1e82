"""What a ledger has: answers, receipts, counts; read within one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import orjson

from crossline.serve.ledger.base import AnswerCounts, LedgerAnswer
from crossline.serve.ledger.chain import ChainFault, check_chain
from crossline.serve.ledger.receipts import FIELDS, OF_ANSWER, ChainHead
from crossline.serve.ledger.signing import Verifier


class LedgerRows(Protocol):
    """What a ledger is asked: a connection of SQLite, or what stands for one. Values stand where ``?`` is."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        """The cursor of what was asked."""
        ...


_PART = 10_000  # receipts that are held at once
_COUNTED = """INSERT INTO counts VALUES (?, ?, ?)
    ON CONFLICT (name, answered) DO UPDATE SET number = number + excluded.number"""
# Of a ledger in PostgreSQL each process counts by itself.
_COUNTS = "SELECT name, answered, CAST(sum(number) AS BIGINT) FROM counts GROUP BY name, answered ORDER BY answered"
_ANSWER = "SELECT stream, record_id, decision_id, body, answered_ms FROM answers WHERE body IS NOT NULL AND"
_BODY = """SELECT r.rest, b.body, a.body, r.replica, r.sequence, r.digest FROM receipts AS r
    LEFT JOIN answers AS a ON a.decision_id = r.decision_id LEFT JOIN bases AS b ON b.digest = r.basis"""


def add_count(connection: sqlite3.Connection, name: str, answered: str, number: int = 1) -> None:
    """Count ``number`` more, within a transaction."""
    if number:
        connection.execute(_COUNTED, (name, answered, number))


def read_counts(connection: LedgerRows) -> AnswerCounts:
    """How much was answered, since the ledger was made; what was removed since is still counted."""
    found: dict[str, dict[str, int]] = {"answered": {}, "revised": {}, "differs": {}}
    for name, answered, number in connection.execute(_COUNTS):
        found[name][answered] = number
    pending = connection.execute("SELECT count(*) FROM answers WHERE body IS NULL").fetchone()[0]
    return AnswerCounts(**found, pending=pending)


def read_answer(connection: LedgerRows, where: str, values: Sequence[str]) -> LedgerAnswer | None:
    """The answer that ``where`` finds; None if there is none yet."""
    row = connection.execute(f"{_ANSWER} {where}", values).fetchone()
    if row is None:
        return None
    later = "SELECT body FROM revisions WHERE decision_id = ? ORDER BY revision, at_ms"
    revisions = tuple(orjson.loads(body) for (body,) in connection.execute(later, (row[2],)))
    stream, record_id, decision_id, body, answered_ms = row
    return LedgerAnswer(stream, record_id, decision_id, body, answered_ms, orjson.loads(body)[OF_ANSWER], revisions)


def read_unsettled(connection: LedgerRows, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
    """Answers since ``since_ms`` that the stream did not give itself, and that have no revision, the latest first.

    Of each its stream, record id, decision id, how it was answered, and the decision.
    """
    rows = connection.execute(
        """SELECT stream, record_id, decision_id, answered, decision FROM answers
        WHERE body IS NOT NULL AND answered != 'exact' AND answered_ms >= ?
        AND decision_id NOT IN (SELECT decision_id FROM revisions)
        ORDER BY answered_ms DESC LIMIT ?""",
        (since_ms, most),
    )
    return [(str(a), str(b), str(c), str(d), str(e)) for a, b, c, d, e in rows]


def read_newest_ms(connection: LedgerRows) -> int | None:
    """When the last answer was kept: that of the last receipt of some chain."""
    newest = """SELECT max(at_ms) FROM receipts AS r JOIN chains AS c
        ON r.replica = c.replica AND r.sequence = c.sequence"""
    row = connection.execute(newest).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def read_differing(connection: LedgerRows, since_ms: int, most: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Answers that the stream decided otherwise since ``since_ms``, each with that decision, the latest first."""
    rows = connection.execute(
        """SELECT a.body, r.body FROM revisions AS r JOIN answers AS a ON a.decision_id = r.decision_id
        WHERE r.at_ms >= ? AND a.body IS NOT NULL ORDER BY r.at_ms DESC LIMIT ?""",
        (since_ms, most),
    )
    found = [(orjson.loads(answer), orjson.loads(revision)) for answer, revision in rows]
    return [each for each in found if "answered" in each[1] and "was" in each[1]]  # not what the stream itself revised


def read_figures(connection: LedgerRows, records: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Of records that were answered by a peek, the figures that their answers rest on, by the name of the rule."""
    asked = """SELECT r.rest FROM answers AS a JOIN receipts AS r ON r.decision_id = a.decision_id
        WHERE a.stream = ? AND a.record_id = ? AND a.answered = 'peek' AND a.body IS NOT NULL"""
    found = {}
    for each in records:
        row = connection.execute(asked, each).fetchone()
        if row is not None:
            found[each] = {figure["name"]: figure for figure in _document(row[0]).get("figures") or ()}
    return found


def read_receipt(connection: LedgerRows, decision_id: str) -> dict[str, Any] | None:
    """The receipt of an answer, whole and in the order promised; None if there is none."""
    row = connection.execute(f"{_BODY} WHERE r.decision_id = ?", (decision_id,)).fetchone()
    return None if row is None else whole(row)


def whole(row: Sequence[Any]) -> dict[str, Any]:
    """A receipt from its parts. What was damaged is left as it is found, for a check to name."""
    rest, basis, body, replica, sequence, digest = row
    found: dict[str, Any] = {"replica": replica, "sequence": sequence, "digest": digest}
    for part in (rest, basis):
        found.update(_document(part))
    decision = _document(body)
    # The answer names the digest of its receipt: where it names another, the answer is not the one that was given.
    if decision.pop(OF_ANSWER, None) == digest:
        found["decision"] = decision
    order = [*FIELDS, *(name for name in found if name not in FIELDS)]
    return {name: found[name] for name in order if name in found}


def _document(data: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(data or b"{}")
    except (orjson.JSONDecodeError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class LedgerCheck:
    """What checking a whole ledger gave. ``chains``: how many receipts each has; ``erased``: those without ids."""

    chains: dict[str, int]
    signed: int
    unchecked: int
    faults: list[ChainFault]
    counts: AnswerCounts
    erased: int = 0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "result": "altered" if self.faults else "whole",
            "receipts": sum(self.chains.values()),
            "chains": self.chains,
            "signed": self.signed,
            "signatures_unchecked": self.unchecked,
            "erased": self.erased,
            "faults": [fault.to_json() for fault in self.faults],
            "counts": self.counts.to_json(),
        }


def check_chains(connection: LedgerRows, verifier: Verifier | None = None) -> LedgerCheck:
    """Check each chain of the ledger that ``connection`` reads, as of one moment."""
    found = LedgerCheck({}, 0, 0, [], read_counts(connection))
    names = "SELECT replica, sequence, digest, gone_sequence, gone_digest FROM chains ORDER BY slot"
    for replica, sequence, digest, gone_sequence, gone_digest in connection.execute(names).fetchall():
        begin, end = ChainHead(replica, gone_sequence, gone_digest), ChainHead(replica, sequence, digest)
        found.chains[replica] = 0
        receipts = _chain(connection, replica)
        while part := list(islice(receipts, _PART)):
            checked = check_chain(part, begin=begin, verifier=verifier)
            found.chains[replica] += checked.receipts
            found.signed += checked.signed
            found.unchecked += checked.unchecked
            found.erased += checked.erased
            found.faults += checked.faults
            begin = checked.end or begin
        found.faults += check_chain([], begin=begin, end=end).faults
    found.faults += _strangers(connection, list(found.chains))
    return found


def _chain(connection: LedgerRows, replica: str) -> Iterator[dict[str, Any]]:
    for row in connection.execute(f"{_BODY} WHERE r.replica = ? ORDER BY r.sequence", (replica,)):
        yield whole(row)


def _strangers(connection: LedgerRows, known: Sequence[str]) -> list[ChainFault]:
    """Receipts of chains that the ledger does not have, and answers without a receipt."""
    found = []
    for replica, count in connection.execute("SELECT replica, count(*) FROM receipts GROUP BY replica"):
        if replica not in known:
            found.append(ChainFault("altered", replica, 0, f"{count:,} receipts of a chain that is not there"))
    lost = """SELECT a.stream, a.record_id FROM answers AS a LEFT JOIN receipts AS r ON r.decision_id = a.decision_id
        WHERE a.body IS NOT NULL AND r.decision_id IS NULL ORDER BY a.stream, a.record_id LIMIT 20"""
    for stream, record_id in connection.execute(lost):
        found.append(ChainFault("left_out", "", 0, f"the answer about {record_id} of {stream} has no receipt"))
    return found
