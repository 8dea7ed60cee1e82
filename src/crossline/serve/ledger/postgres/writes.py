"""How answers, receipts and revisions are kept in PostgreSQL, and how they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from crossline.basics.errors import RetryableError
from crossline.io.postgres.client import Connection, DatabaseAddress
from crossline.io.postgres.text_escapes import escape, indexed
from crossline.serve.ledger.base import StoredAnswer
from crossline.serve.ledger.postgres.outbox import keep_unreported
from crossline.serve.ledger.postgres.schema import slots_key
from crossline.serve.ledger.postgres.session import LedgerSession
from crossline.serve.ledger.receipt_storage import OF_ANSWER, OF_BASIS
from crossline.serve.ledger.receipts import (
    BasisTexts,
    ChainHead,
    ReceiptEntry,
    answer_of,
    canonical,
    digest_of,
    receipt_body,
)
from crossline.serve.ledger.signing import Signer
from crossline.serve.revisions.values import Revision

_CHAIN = b"""SELECT sequence, digest, set_config('synchronous_commit', %s, true) FROM chains
    WHERE slot = %s AND incarnation = %s FOR UPDATE"""
_ROWS = b"""SELECT a.stream, a.record_id, a.body_digest, a.decision_id, a.body FROM answers AS a
    JOIN (SELECT DISTINCT * FROM unnest(%s::text[], %s::text[]) AS v (s, r)) AS u
    ON a.stream = u.s AND a.record_id = u.r ORDER BY a.stream, a.record_id FOR UPDATE OF a"""
_MISSING = b"""INSERT INTO answers (stream, record_id, body_digest, slot, incarnation, claimed_ms)
    SELECT s, r, d, %s, %s, %s FROM unnest(%s::text[], %s::text[], %s::text[]) AS u (s, r, d) ORDER BY s, r
    ON CONFLICT (stream, record_id) DO NOTHING"""
# All that a group writes, in one statement.
_WRITE = b"""WITH bases_made AS (
        INSERT INTO bases SELECT * FROM unnest(%(bases)s::text[], %(basis_bodies)s::bytea[]) ON CONFLICT DO NOTHING),
    answers_given AS (
        UPDATE answers AS a SET decision_id = u.i, answered = u.w, decision = u.d, body = u.b, answered_ms = %(now_ms)s,
            slot = %(slot)s, incarnation = %(incarnation)s
        FROM unnest(%(streams)s::text[], %(records)s::text[], %(ids)s::text[], %(answered)s::text[],
            %(decisions)s::text[], %(bodies)s::bytea[]) AS u (s, r, i, w, d, b)
        WHERE a.stream = u.s AND a.record_id = u.r),
    receipts_made AS (
        INSERT INTO receipts SELECT %(replica)s, u.n, u.i, u.g, u.p, u.t, %(now_ms)s
        FROM unnest(%(sequences)s::bigint[], %(ids)s::text[], %(digests)s::text[], %(of_basis)s::text[],
            %(rests)s::bytea[]) AS u (n, i, g, p, t)),
    counted AS (
        INSERT INTO counts SELECT %(slot)s, 'answered', u.w, u.n
        FROM unnest(%(kinds)s::text[], %(numbers)s::bigint[]) AS u (w, n)
        ON CONFLICT (slot, name, answered) DO UPDATE SET number = counts.number + excluded.number)
    UPDATE chains SET sequence = %(sequence)s, digest = %(digest)s WHERE slot = %(slot)s"""
_COUNT = b"""INSERT INTO counts VALUES (%s, %s, %s, %s)
    ON CONFLICT (slot, name, answered) DO UPDATE SET number = counts.number + excluded.number"""
_UNANSWERED = b"""DELETE FROM answers WHERE (stream, record_id) IN (SELECT stream, record_id FROM answers
    WHERE body IS NULL AND claimed_ms < %s ORDER BY claimed_ms LIMIT %s)"""

Key = tuple[str, str]


class LostSlotError(RetryableError):
    """Another process has the slot of this session, and its chain."""


@dataclass(frozen=True, slots=True)
class KnownBases:
    """What was in force for receipts: ``there``: digests of those that the ledger has; ``texts``: as they are kept."""

    there: set[str] = field(default_factory=set)
    texts: BasisTexts = field(default_factory=BasisTexts)


def keep_all(
    session: LedgerSession, entries: Sequence[ReceiptEntry], now_ms: int, signer: Signer | None, bases: KnownBases
) -> list[StoredAnswer | None]:
    """Keep answers with their receipts, all or none. Those of ``bases`` that are made are added to it.

    Raises LostSlotError if the chain is another process's, and what psycopg raises.
    """
    keys = [(each.asked.stream, indexed(each.asked.record_id)) for each in entries]
    # In a pipeline a transaction is two ways to the server and back: what is asked goes there together.
    with session.connection.pipeline(), session.connection.transaction():
        values = (session.synced, session.slot, session.incarnation)
        found = session.connection.execute(_CHAIN, values)
        rows = _rows(session, entries, keys, now_ms)
        chain = found.fetchone()
        if chain is None:
            raise LostSlotError(f"slot {session.slot} of the ledger is another process's by now")
        group = _Group(ChainHead(session.replica, int(chain[0]), str(chain[1])), signer, bases)
        kept = [group.add(entry, key, rows) for entry, key in zip(entries, keys, strict=True)]
        if group.ids:
            session.connection.execute(_WRITE, group.values(session, now_ms))
    bases.there.update(group.bases)
    return kept


def _rows(
    session: LedgerSession, entries: Sequence[ReceiptEntry], keys: Sequence[Key], now_ms: int
) -> dict[Key, list[Any]]:
    """The rows of ids, locked; those that were removed meanwhile are made again."""
    columns = ([key[0] for key in keys], [key[1] for key in keys])
    while True:
        found = session.connection.execute(_ROWS, columns).fetchall()
        rows = {(str(row[0]), str(row[1])): list(row[2:]) for row in found}
        missing = [at for at, key in enumerate(keys) if key not in rows]
        if not missing:
            return rows
        digests = [entries[at].asked.digest for at in missing]
        given = ([keys[at][0] for at in missing], [keys[at][1] for at in missing], digests)
        session.connection.execute(_MISSING, (session.slot, session.incarnation, now_ms, *given))


class _Group:
    """What a transaction writes, column by column."""

    def __init__(self, link: ChainHead, signer: Signer | None, bases: KnownBases) -> None:
        self._link, self._signer, self._known, self._texts = link, signer, bases.there, bases.texts
        self.ids: list[str] = []
        self.bases: dict[str, bytes] = {}
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "streams",
                "records",
                "answered",
                "decisions",
                "bodies",
                "sequences",
                "digests",
                "of_basis",
                "rests",
            )
        }

    def add(self, entry: ReceiptEntry, key: Key, rows: Mapping[Key, list[Any]]) -> StoredAnswer | None:
        """The answer that holds for an id: this one, or one that was kept before."""
        row = rows[key]
        if row[0] != entry.asked.digest:
            return None
        if row[2] is not None:
            body = bytes(row[2])
            return StoredAnswer(body, str(row[1]), orjson.loads(body)["receipt"], first=False)
        in_force = self._texts.of(entry.basis)
        receipt = receipt_body(entry, self._link, self._signer.key_id if self._signer else None, in_force.written)
        digest = digest_of(receipt)
        decision_id, body = str(entry.decision["decision_id"]), answer_of(entry.decision, digest)
        whole = {**receipt, "digest": digest, "signature": self._signer.sign(digest) if self._signer else None}
        if in_force.digest not in self._known:
            self.bases[in_force.digest] = in_force.body
        rest = {name: value for name, value in whole.items() if name not in {*OF_BASIS, OF_ANSWER}}
        self._link = ChainHead(self._link.replica, self._link.sequence + 1, digest)
        words = (escape(str(entry.decision["answered"])), escape(str(entry.decision["decision"])))
        made = (*key, *words, body, self._link.sequence, digest, in_force.digest, orjson.dumps(rest))
        for column, value in zip(self._columns.values(), made, strict=True):
            column.append(value)
        self.ids.append(indexed(decision_id))
        row[1], row[2] = decision_id, body
        return StoredAnswer(body, decision_id, digest)

    def values(self, session: LedgerSession, now_ms: int) -> dict[str, Any]:
        """For the statement."""
        kinds = Counter(self._columns["answered"])
        return {
            **self._columns,
            "ids": self.ids,
            "bases": list(self.bases),
            "basis_bodies": list(self.bases.values()),
            "kinds": list(kinds),
            "numbers": list(kinds.values()),
            "now_ms": now_ms,
            "slot": session.slot,
            "incarnation": session.incarnation,
            "replica": session.replica,
            "sequence": self._link.sequence,
            "digest": self._link.digest,
        }


def revise_one(
    session: LedgerSession, decision_id: str, revision: Mapping[str, Any], now_ms: int, report: Revision | None = None
) -> bool:
    """Keep what the stream made of an answer, and ``report`` until it is delivered; returns whether it is new.

    Raises what psycopg raises.
    """
    name, connection = indexed(decision_id), session.connection
    with connection.transaction():
        connection.execute("SELECT set_config('synchronous_commit', %s, true)", (session.synced,))
        found = "SELECT answered, decision FROM answers WHERE decision_id = %s AND body IS NOT NULL FOR UPDATE"
        row = connection.execute(found, (name,)).fetchone()
        if row is None:
            return False
        before = _latest(connection, name)
        made = (
            name,
            indexed(str(revision["decision_id"])),
            int(revision.get("revision", 0)),
            canonical(dict(revision)),
        )
        added = "INSERT INTO revisions VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
        if not connection.execute(added, (*made, now_ms)).rowcount:
            return False
        if report is not None:
            keep_unreported(session, name, report)
        was = before is not None and escape(before) != row[1]
        differs = int(escape(_latest(connection, name) or "") != row[1]) - int(was)
        for kind, number in (("revised", int(before is None)), ("differs", differs)):
            if number:
                connection.execute(_COUNT, (session.slot, kind, row[0], number))
    return True


def _latest(connection: Connection, name: str) -> str | None:
    """What the last revision of an answer decides."""
    latest = "SELECT body FROM revisions WHERE decision_id = %s ORDER BY revision DESC, at_ms DESC LIMIT 1"
    row = connection.execute(latest, (name,)).fetchone()
    return None if row is None else str(orjson.loads(bytes(row[0]))["decision"])


def remove_oldest(session: LedgerSession, place: DatabaseAddress, before_ms: int, most: int) -> int:
    """Remove at most ``most`` of what was answered, or claimed and never answered, before ``before_ms``.

    Of each chain from its beginning on, so that it stays whole. 0 where another process is at it.
    """
    gone, connection = 0, session.connection
    with connection.transaction():
        connection.execute("SELECT set_config('synchronous_commit', %s, true)", (session.synced,))
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s, -1)", (slots_key(place),)).fetchone()
        if row is None or not row[0]:
            return 0
        for slot, replica in connection.execute("SELECT slot, replica FROM chains ORDER BY slot").fetchall():
            gone += _remove_of(connection, slot, replica, before_ms, most - gone)
        if gone < most:
            gone += connection.execute(_UNANSWERED, (before_ms, most - gone)).rowcount
    return gone


def _remove_of(connection: Connection, slot: int, replica: str, before_ms: int, most: int) -> int:
    oldest = (
        """SELECT sequence, digest, decision_id, at_ms FROM receipts WHERE replica = %s ORDER BY sequence LIMIT %s"""
    )
    old: list[tuple[Any, ...]] = []
    for row in connection.execute(oldest, (replica, most)).fetchall():
        if row[3] >= before_ms:
            break
        old.append(row)
    if old:
        ids = [row[2] for row in old]
        connection.execute("DELETE FROM receipts WHERE replica = %s AND sequence <= %s", (replica, old[-1][0]))
        connection.execute("DELETE FROM answers WHERE decision_id = ANY(%s)", (ids,))
        connection.execute("DELETE FROM revisions WHERE decision_id = ANY(%s)", (ids,))
        connection.execute("DELETE FROM untold WHERE decision_id = ANY(%s)", (ids,))
        last = (old[-1][0], old[-1][1], slot)
        connection.execute("UPDATE chains SET gone_sequence = %s, gone_digest = %s WHERE slot = %s", last)
    return len(old)
