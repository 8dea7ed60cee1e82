"""How often a password may be tried: 5 times, then 15 minutes of waiting; kept over restarts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from crossline.io.private_database import PrivateDatabase

WAIT_MS = 15 * 60_000
# Of one user from one address; of one user from anywhere, who is not locked out by a single stranger; of one address.
ONE_MAX, USER_MAX, PEER_MAX = 5, 50, 30


@dataclass(frozen=True, slots=True)
class Tried:
    """A try. ``made``: whether it may be looked at; ``left``: those after it; ``until_ms``: when one may try again."""

    made: bool
    left: int
    until_ms: int


class Tries:
    """Counts tries of passwords before they are looked at, so that many at once are no more than one after another.

    An unknown name is counted as any other. Each call waits for the disk: for a thread.
    """

    def __init__(self, kept: PrivateDatabase) -> None:
        self._kept = kept

    def take(self, name: str, peer: str, now_ms: int) -> Tried:
        """Count one try of ``name`` from the address ``peer``; where there are too many, nothing is counted."""
        keys = _keys(name, peer)
        with self._kept.writing() as db:
            # Those of a time to come are of a clock that was set back since: they would lock a user out until then.
            db.execute("DELETE FROM tries WHERE since_ms <= ? OR since_ms > ?", (now_ms - WAIT_MS, now_ms + WAIT_MS))
            left = []
            for key, most in keys:
                row = db.execute("SELECT count, since_ms FROM tries WHERE key = ?", (key,)).fetchone()
                count, since_ms = row or (0, now_ms)
                if count >= most:
                    return Tried(made=False, left=0, until_ms=since_ms + WAIT_MS)
                left.append(most - count - 1)
            for key, _ in keys:
                db.execute(
                    "INSERT INTO tries (key, count, since_ms) VALUES (?, 1, ?)"
                    " ON CONFLICT (key) DO UPDATE SET count = count + 1",
                    (key, now_ms),
                )
            # Of one user from one address the wait counts from the last try, of the others from the first.
            db.execute("UPDATE tries SET since_ms = ? WHERE key = ?", (now_ms, keys[0][0]))
        return Tried(made=True, left=min(left), until_ms=now_ms + WAIT_MS)

    def right(self, name: str, peer: str) -> None:
        """It was the right password: that user from that address begins anew, and the attempt does not count."""
        (both, _), *others = _keys(name, peer)
        with self._kept.writing() as db:
            db.execute("DELETE FROM tries WHERE key = ?", (both,))
            for key, _ in others:
                db.execute("UPDATE tries SET count = max(0, count - 1) WHERE key = ?", (key,))


def _keys(name: str, peer: str) -> tuple[tuple[bytes, int], ...]:
    def key(*parts: str) -> bytes:
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest()

    return (key("both", name, peer), ONE_MAX), (key("user", name), USER_MAX), (key("peer", peer), PEER_MAX)
