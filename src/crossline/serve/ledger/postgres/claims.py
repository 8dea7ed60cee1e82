"""How ids are claimed in PostgreSQL: one statement for all that are fresh, one look at the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crossline.io.postgres.client import DatabaseAddress
from crossline.io.postgres.text_escapes import indexed
from crossline.serve.decisions.values import SubmittedRecord
from crossline.serve.ledger.base import Claimed
from crossline.serve.ledger.postgres.schema import alive, slots_key
from crossline.serve.ledger.postgres.session import LedgerSession, Owner

# In the order of the key, so that two who claim the same ids do not wait for each other in a circle.
_CLAIM = b"""INSERT INTO answers (stream, record_id, body_digest, slot, incarnation, claimed_ms)
    SELECT s, r, d, %s, %s, %s FROM unnest(%s::text[], %s::text[], %s::text[]) AS u (s, r, d) ORDER BY s, r
    ON CONFLICT (stream, record_id) DO NOTHING RETURNING stream, record_id"""
# Whether the process that made an unanswered claim lives.
_FOUND = f"""SELECT a.stream, a.record_id, a.body_digest, a.slot, a.incarnation, a.claimed_ms, a.decision_id, a.body,
    CASE WHEN a.body IS NULL AND a.slot IS NOT NULL THEN {alive("a")} END
    FROM answers AS a JOIN (SELECT DISTINCT * FROM unnest(%s::text[], %s::text[]) AS v (s, r)) AS u
    ON a.stream = u.s AND a.record_id = u.r""".encode()  # noqa: S608 - of constants
_TAKEN = b"""UPDATE answers SET slot = %s, incarnation = %s, claimed_ms = %s WHERE stream = %s AND record_id = %s
    AND body IS NULL AND slot IS NOT DISTINCT FROM %s AND incarnation IS NOT DISTINCT FROM %s AND claimed_ms = %s
    RETURNING 1"""
_ROUNDS = 5  # looks at an id that others claim and give up meanwhile

Key = tuple[str, str]


def claim_all(
    session: LedgerSession,
    place: DatabaseAddress,
    asked: Sequence[SubmittedRecord],
    now_ms: int,
    claim_ms_max: int,
    lost: Owner | None = None,
) -> list[Claimed]:
    """What became of the claims, in their order. Raises what psycopg raises.

    ``lost``: who made the same claims a moment ago, by a connection that ended before it had the result.
    """
    given: dict[Key, SubmittedRecord] = {}
    for each in asked:
        given.setdefault((each.stream, indexed(each.record_id)), each)
    fresh: dict[Key, Claimed] = {}
    settled: dict[Key, Any] = {}
    for _ in range(_ROUNDS):
        left = [key for key in given if key not in fresh and key not in settled]
        if not left:
            break
        for key in _inserted(session, given, left, now_ms):
            fresh[key] = Claimed("fresh")
        rest = [key for key in left if key not in fresh]
        for key, row in _rows(session, place, rest).items():
            digest, slot, incarnation, claimed_ms, _, body, alive = row
            mine = given[key].digest == digest
            own = lost == (slot, incarnation) and claimed_ms == now_ms
            if mine and body is None and (own or not (abs(now_ms - claimed_ms) < claim_ms_max and alive)):
                values = (session.slot, session.incarnation, now_ms, *key, slot, incarnation, claimed_ms)
                if session.connection.execute(_TAKEN, values).fetchone() is not None:
                    fresh[key] = Claimed("fresh", again=not own)
                continue  # else another was quicker: it is looked at again
            settled[key] = row
    return [_claim_of(each, given, fresh, settled) for each in asked]


def _claim_of(
    each: SubmittedRecord, given: dict[Key, SubmittedRecord], fresh: dict[Key, Claimed], settled: dict[Key, Any]
) -> Claimed:
    """An id that stands twice among those that are asked at once is fresh the first time."""
    key = (each.stream, indexed(each.record_id))
    if key in fresh:
        if given[key] is each:
            return fresh[key]
        return Claimed("pending" if given[key].digest == each.digest else "differs")
    row = settled.get(key)
    if row is None:
        return Claimed("pending")
    if row[0] != each.digest:
        return Claimed("differs", decision_id=row[4])
    return Claimed("pending") if row[5] is None else Claimed("answered", bytes(row[5]), row[4])


def _inserted(session: LedgerSession, given: dict[Key, SubmittedRecord], keys: Sequence[Key], now_ms: int) -> list[Key]:
    columns = ([key[0] for key in keys], [key[1] for key in keys], [given[key].digest for key in keys])
    rows = session.connection.execute(_CLAIM, (session.slot, session.incarnation, now_ms, *columns)).fetchall()
    return [(str(stream), str(record_id)) for stream, record_id in rows]


def _rows(session: LedgerSession, place: DatabaseAddress, keys: Sequence[Key]) -> dict[Key, Any]:
    if not keys:
        return {}
    columns = ([key[0] for key in keys], [key[1] for key in keys])
    rows = session.connection.execute(_FOUND, (slots_key(place), *columns)).fetchall()
    return {(str(row[0]), str(row[1])): row[2:] for row in rows}
