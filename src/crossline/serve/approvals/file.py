"""``approvals.db`` in ``serve.path``: drafts, proofs and requests, in SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import PermanentError, UsageError
from crossline.io.private_database import PrivateDatabase
from crossline.rule_registry.sources.principals import same_principal
from crossline.serve.approvals.values import KeptProof, Request, RuleDraft, text_digest

FILE = "approvals.db"
PROOFS_MAX = 500  # without a request for approval; the oldest is dropped
_VERSION = 2
_TABLES = (
    """CREATE TABLE drafts (
    rule_id TEXT NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL, at_ms INTEGER NOT NULL,
    PRIMARY KEY (rule_id, who)) WITHOUT ROWID, STRICT""",
    """CREATE TABLE proofs (
    proof_id TEXT PRIMARY KEY, text_digest TEXT NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL,
    said TEXT NOT NULL) WITHOUT ROWID, STRICT""",
    "CREATE INDEX proofs_by_text ON proofs (text_digest, at_ms)",
    """CREATE TABLE requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT, rule_id TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL,
    text TEXT NOT NULL, proof_id TEXT NOT NULL, who TEXT NOT NULL, asked_ms INTEGER NOT NULL, state TEXT NOT NULL,
    decided_by TEXT, decided_ms INTEGER, reason TEXT NOT NULL, beneath TEXT, done_ms INTEGER) STRICT""",
)
# What was decided by a server that did not note it counts as done.
_SINCE = {
    1: (
        "ALTER TABLE requests ADD COLUMN beneath TEXT",
        "ALTER TABLE requests ADD COLUMN done_ms INTEGER",
        "UPDATE requests SET done_ms = decided_ms",
    )
}
_REQUEST = (
    *("number", "rule_id", "version", "name", "text", "proof_id", "who", "asked_ms", "state", "decided_by"),
    *("decided_ms", "reason", "beneath", "done_ms"),
)
_ROW = ", ".join(_REQUEST)


class ApprovalFile:
    """Keeps drafts, proofs and requests. Each call waits for the disk: for a thread.

    Args:
        folder: ``serve.path``.
    """

    def __init__(self, folder: Path) -> None:
        self._db = PrivateDatabase(folder / FILE, _VERSION, _TABLES, "the console", _SINCE)
        with self._db.writing():
            pass

    def keep_draft(self, draft: RuleDraft) -> None:
        """The one draft of a person for a rule."""
        with self._db.writing() as db:
            row = (draft.rule_id, draft.who, draft.text, draft.at_ms)
            db.execute("INSERT OR REPLACE INTO drafts (rule_id, who, text, at_ms) VALUES (?, ?, ?, ?)", row)

    def draft(self, rule_id: str, who: str) -> RuleDraft | None:
        """The text that a user worked on last; None: nothing."""
        with self._db.reading() as db:
            asked = (rule_id, who)
            row = db.execute(
                "SELECT rule_id, who, text, at_ms FROM drafts WHERE rule_id = ? AND who = ?", asked
            ).fetchone()
        return None if row is None else RuleDraft(*row)

    def drop_draft(self, rule_id: str, who: str) -> None:
        """It is worked on no more."""
        with self._db.writing() as db:
            db.execute("DELETE FROM drafts WHERE rule_id = ? AND who = ?", (rule_id, who))

    def keep_proof(self, proof: KeptProof) -> None:
        """Once: it never changes."""
        row = (
            proof.proof_id,
            proof.content["digests"]["rule"],
            proof.who,
            proof.at_ms,
            orjson.dumps(dict(proof.content)).decode(),
        )
        with self._db.writing() as db:
            db.execute(
                "INSERT OR IGNORE INTO proofs (proof_id, text_digest, who, at_ms, said) VALUES (?, ?, ?, ?, ?)", row
            )
            db.execute(
                "DELETE FROM proofs WHERE proof_id NOT IN (SELECT proof_id FROM requests) AND proof_id NOT IN "
                "(SELECT proof_id FROM proofs ORDER BY at_ms DESC LIMIT ?)",
                (PROOFS_MAX,),
            )

    def proof(self, proof_id: str) -> KeptProof | None:
        """By its id."""
        return self._proof("proof_id = ?", proof_id)

    def proof_of_text(self, text: str) -> KeptProof | None:
        """The last one of exactly this text; None: there is none."""
        return self._proof("text_digest = ?", text_digest(text))

    def _proof(self, where: str, value: str) -> KeptProof | None:
        with self._db.reading() as db:
            asked = f"SELECT proof_id, who, at_ms, said FROM proofs WHERE {where} ORDER BY at_ms DESC LIMIT 1"  # noqa: S608 - our own text
            row = db.execute(asked, (value,)).fetchone()
        return None if row is None else KeptProof(row[0], row[1], row[2], orjson.loads(row[3]))

    def ask(
        self, rule_id: str, version: int, name: str, text: str, who: str, now_ms: int, beneath: str | None = None
    ) -> Request:
        """Ask for approval; the values are those of a ``Request``.

        Raises UsageError if no proof is of exactly this text, or it is asked for already.
        """
        proof = self.proof_of_text(text)
        if proof is None:
            raise UsageError("found no proof of exactly this text; expected a backtest of it: run it, then ask")
        with self._db.writing() as db:
            asked = (rule_id, version)
            if db.execute(
                "SELECT 1 FROM requests WHERE rule_id = ? AND version = ? AND state = 'waiting'", asked
            ).fetchone():
                raise UsageError(f"version {version} of {rule_id} waits for approval already; see it under Approvals")
            values = (rule_id, version, name, text, proof.proof_id, who, now_ms)
            put = (
                "INSERT INTO requests (rule_id, version, name, text, proof_id, who, asked_ms, state, reason, beneath) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', '', ?)"
            )
            number = int(db.execute(put, (*values, beneath)).lastrowid or 0)
        return Request(number, *values, beneath=beneath)

    def request(self, number: int) -> Request | None:
        """By its number; None: there is none."""
        found = self._requests("WHERE number = ?", (number,))
        return found[0] if found else None

    def waiting(self) -> list[Request]:
        """Those that wait, the first that was asked for first."""
        return self._requests("WHERE state = 'waiting' ORDER BY number", ())

    def decided(self, limit: int = 50) -> list[Request]:
        """Those that are over, the last first."""
        return self._requests("WHERE state != 'waiting' ORDER BY decided_ms DESC, number DESC LIMIT ?", (limit,))

    def published(self, rule_id: str, version: int) -> Request | None:
        """By which a version was published; None: it came another way."""
        where = "WHERE rule_id = ? AND version = ? AND state = 'published' ORDER BY number DESC LIMIT 1"
        found = self._requests(where, (rule_id, version))
        return found[0] if found else None

    def foretold(self) -> dict[tuple[str, int], tuple[Request, KeptProof]]:
        """Each version that was published with a proof, by its rule and number, with the last of several."""
        columns = ", ".join(f"r.{each}" for each in _REQUEST)
        asked = (
            f"SELECT {columns}, p.proof_id, p.who, p.at_ms, p.said FROM requests AS r "  # noqa: S608 - our own names
            "JOIN proofs AS p USING (proof_id) WHERE r.state = 'published' ORDER BY r.number"
        )
        found = {}
        with self._db.reading() as db:
            for row in db.execute(asked):
                request, proof = Request(*row[: len(_REQUEST)]), row[len(_REQUEST) :]
                content = (proof[0], proof[1], proof[2], orjson.loads(proof[3]))
                found[request.rule_id, request.version] = (request, KeptProof(*content))
        return found

    def decide(self, number: int, who: str, reason: str, now_ms: int, *, approved: bool) -> Request:
        """Approve or reject. Raises PermanentError if ``who`` may be who asked, or it is over."""
        with self._db.writing() as db:
            row = db.execute(f"SELECT {_ROW} FROM requests WHERE number = ?", (number,)).fetchone()  # noqa: S608 - our own names
            if row is None:
                raise UsageError(f"found no request {number}")
            check_may_decide(Request(*row), who)
            state = "published" if approved else "rejected"
            set_ = "state = ?, decided_by = ?, decided_ms = ?, reason = ?, done_ms = ?"
            values = (state, who, now_ms, reason, None if approved else now_ms, number)
            db.execute(f"UPDATE requests SET {set_} WHERE number = ?", values)  # noqa: S608 - our own names
            after = db.execute(f"SELECT {_ROW} FROM requests WHERE number = ?", (number,)).fetchone()  # noqa: S608 - as above
        return Request(*after)

    def note_done(self, number: int, now_ms: int) -> Request:
        """What was approved is published."""
        with self._db.writing() as db:
            db.execute("UPDATE requests SET done_ms = ? WHERE number = ? AND state = 'published'", (now_ms, number))
            row = db.execute(f"SELECT {_ROW} FROM requests WHERE number = ?", (number,)).fetchone()  # noqa: S608 - our own names
        return Request(*row)

    def unfinished(self) -> list[Request]:
        """Requests that were approved and not noted as published, the first first."""
        return self._requests("WHERE state = 'published' AND done_ms IS NULL ORDER BY number", ())

    def reopen(self, number: int) -> None:
        """It waits again, since what was decided could not be done."""
        with self._db.writing() as db:
            db.execute(
                "UPDATE requests SET state = 'waiting', decided_by = NULL, decided_ms = NULL, reason = '', "
                "done_ms = NULL WHERE number = ?",
                (number,),
            )

    def _requests(self, where: str, values: Sequence[Any]) -> list[Request]:
        with self._db.reading() as db:
            return [Request(*row) for row in db.execute(f"SELECT {_ROW} FROM requests {where}", values)]  # noqa: S608 - as above


def check_may_decide(request: Request, who: str) -> None:
    """Raise PermanentError unless ``who`` is another than who asked, and it waits."""
    if request.state != "waiting":
        raise PermanentError(
            f"{request.decided_by} {request.state} version {request.version} already; nothing was done"
        )
    if same_principal(request.who, who):
        raise PermanentError(
            f"You cannot approve version {request.version} of {request.rule_id}: you wrote it, or who did cannot be "
            "distinguished from you. Another person with the role approver can"
        )


def proof_id_of(body: Mapping[str, Any]) -> str:
    """Of a proof: of its rule, its data and its result.

    >>> proof_id_of({"digests": {"rule": "a", "data": "b", "result": "c"}})[:8]
    'ea7fb08b'
    """
    digests = body["digests"]
    return text_digest("\n".join(str(digests[name]) for name in ("rule", "data", "result")))[:32]
