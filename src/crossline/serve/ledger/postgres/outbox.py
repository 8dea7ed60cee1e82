"""Revisions to be delivered to payment systems, written in the transaction of the revision itself.

The process that made one delivers it and removes it. If that process ends in between, another takes it from here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.postgres.client import Connection, DatabaseAddress
from crossline.io.postgres.text_escapes import indexed
from crossline.serve.ledger.postgres.schema import alive, slots_key
from crossline.serve.ledger.postgres.session import LedgerSession
from crossline.serve.revisions.values import Revision

_KEEP = b"""INSERT INTO untold (decision_id, revision_id, body, slot, incarnation) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (revision_id) DO NOTHING"""
# One's own as well: a call that failed after the commit did not deliver them.
_TAKE = f"""UPDATE untold SET slot = %s, incarnation = %s WHERE number IN (
        SELECT number FROM untold AS u WHERE (u.slot = %s AND u.incarnation = %s) OR NOT {alive("u")}
        ORDER BY number LIMIT %s FOR UPDATE SKIP LOCKED)
    RETURNING number, body""".encode()  # noqa: S608 - of constants
_DONE = b"DELETE FROM untold WHERE revision_id = ANY(%s)"


def keep_unreported(session: LedgerSession, decision_id: str, report: Revision) -> None:
    """Store ``report`` until delivery, in the transaction of the revision itself. Raises what psycopg raises."""
    body = {"id": report.revision_id, "stream": report.stream, "record_id": report.record_id, "body": dict(report.body)}
    made = (decision_id, indexed(report.revision_id), json_bytes(body), *session.owner)
    session.connection.execute(_KEEP, made)


def take_unreported(session: LedgerSession, place: DatabaseAddress, most: int) -> list[Revision]:
    """The oldest to deliver by this process: its own, and those of ended processes; at most ``most``."""
    given = (*session.owner, *session.owner, slots_key(place), most)
    rows = session.connection.execute(_TAKE, given).fetchall()
    return [_revision(bytes(body)) for _, body in sorted(rows)]


def drop_unreported(connection: Connection, revision_ids: Sequence[str]) -> None:
    """Remove them: they are delivered, or durably queued."""
    connection.execute(_DONE, ([indexed(each) for each in revision_ids],))


def _revision(raw: bytes) -> Revision:
    body = json.loads(raw)  # figures of any size
    return Revision(body["id"], body["stream"], body["record_id"], body["body"])
