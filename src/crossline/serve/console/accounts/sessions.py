"""Sessions: who is logged in, by a random id of which only the SHA-256 is kept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from crossline.io.private_database import PrivateDatabase
from crossline.serve.access.roles import Principal, scopes_of_roles
from crossline.serve.console.accounts.users import UserFile

ID_BYTES = 32
IDLE_MS, WHOLE_MS = 30 * 60_000, 12 * 3_600_000
AHEAD_MS = 5 * 60_000  # how far ahead of the clock a session may have begun: clocks are set by so little
SEEN_MS = 60_000  # how exactly it is kept when a session was last used
SESSIONS_MAX = 20  # of one person; the oldest ends
By = Literal["local", "provider"]


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is logged in. ``roles``: as they hold now."""

    digest: bytes
    name: str
    by: By
    roles: tuple[str, ...]
    begun_ms: int
    seen_ms: int

    @property
    def ends_ms(self) -> int:
        """When it ends if it is used no more."""
        return min(self.begun_ms + WHOLE_MS, self.seen_ms + IDLE_MS)

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return Principal(self.name, scopes_of_roles(self.roles), "session", self.begun_ms + WHOLE_MS)


class Sessions:
    """Begins, finds and ends sessions. Each call waits for the disk: for a thread.

    Args:
        kept: ``console.db``.
        users: Whose roles hold, and who was disabled or has another password since.
    """

    def __init__(self, kept: PrivateDatabase, users: UserFile) -> None:
        self._kept = kept
        self._users = users

    def begin(self, name: str, by: By, roles: Sequence[str], now_ms: int) -> str:
        """Make a session; returns its id, which is not stored."""
        if by == "local":
            self._users.set_back(name, now_ms)
        session_id = new_id()
        row = (_digest(session_id), name, by, orjson.dumps(list(roles)).decode(), now_ms, now_ms)
        with self._kept.writing() as db:
            db.execute(
                "DELETE FROM sessions WHERE begun_ms <= ? OR seen_ms <= ?", (now_ms - WHOLE_MS, now_ms - IDLE_MS)
            )
            db.execute(
                "DELETE FROM sessions WHERE digest IN (SELECT digest FROM sessions WHERE name = ?"
                " ORDER BY seen_ms DESC LIMIT -1 OFFSET ?)",
                (name, SESSIONS_MAX - 1),
            )
            db.execute(
                "INSERT INTO sessions (digest, name, by, roles, begun_ms, seen_ms) VALUES (?, ?, ?, ?, ?, ?)", row
            )
        return session_id

    def find(self, session_id: str, now_ms: int, *, used: bool) -> Session | None:
        """The session of an id, if it holds; ``used``: whether a person did something, which keeps it from ending."""
        if not is_id(session_id):
            return None
        digest = _digest(session_id)
        with self._kept.reading() as db:
            row = db.execute(
                "SELECT digest, name, by, roles, begun_ms, seen_ms FROM sessions WHERE digest = ?", (digest,)
            ).fetchone()
        if row is None:
            return None
        found = Session(row[0], row[1], row[2], tuple(orjson.loads(row[3])), row[4], row[5])
        held = self._held(found, now_ms)
        if held is not None and used and now_ms - held.seen_ms >= SEEN_MS:
            with self._kept.writing() as db:
                db.execute("UPDATE sessions SET seen_ms = max(seen_ms, ?) WHERE digest = ?", (now_ms, digest))
        return held

    def end(self, session_id: str) -> None:
        """Log out."""
        with self._kept.writing() as db:
            db.execute("DELETE FROM sessions WHERE digest = ?", (_digest(session_id),))

    def end_all(self, name: str) -> int:
        """Log a person out everywhere; how many sessions that ended."""
        with self._kept.writing() as db:
            return db.execute("DELETE FROM sessions WHERE name = ?", (name,)).rowcount

    def _held(self, found: Session, now_ms: int) -> Session | None:
        if now_ms >= found.ends_ms or found.begun_ms > now_ms + AHEAD_MS:  # the clock was set back since: it has no end
            return None
        if found.by == "provider":
            return found
        user = self._users.find(found.name)
        if user is None or user.disabled_ms is not None or user.password_ms > found.begun_ms:
            return None
        return Session(found.digest, found.name, found.by, user.roles, found.begun_ms, found.seen_ms)


def new_id() -> str:
    """256 bits of the system's source, as text."""
    return base64.urlsafe_b64encode(secrets.token_bytes(ID_BYTES)).rstrip(b"=").decode()


def is_id(text: str) -> bool:
    """Whether it has the form of an id."""
    return len(text) == 43 and text.isascii() and text.replace("-", "a").replace("_", "a").isalnum()


def token_of(session_id: str) -> str:
    """What a form of that session carries: it cannot be made without the id, and does not disclose the id."""
    made = hmac.new(session_id.encode(), b"crossline console: forms", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def is_token(given: str, session_id: str) -> bool:
    """Whether a form is of that session."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token_of(session_id).encode())


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()
