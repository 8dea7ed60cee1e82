"""The keys as a running server knows them: all in memory, as old as a quarter of a second at most."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

from crossline.basics.errors import CrosslineError
from crossline.logs import get_logger
from crossline.serve.access.keyfile import ApiKey, KeyFile, digest_of_key, read_keys
from crossline.serve.access.roles import Principal

CHECK_S = 0.25
# An unreadable file hides revocations: after this time the keys read last are refused.
KNOWN_S = 30.0
_HOUR_MS = 3_600_000
log = get_logger(__name__)


class KeysUnknownError(CrosslineError):
    """The file of the keys could not be read for too long: requests with a key get a 503 with Retry-After."""


class KeyRing:
    """Finds the principal of a key.

    Keys are looked up by their SHA-256 in a table in memory. How long that takes depends on the digest, of which who
    guesses a key chooses no bit; the key itself is compared with nothing. Every quarter of a second the first lookup
    asks the file whether it changed (``PRAGMA data_version``, some microseconds), so a key that was revoked stops
    within that time. A file that is not there has no keys. One that cannot be read leaves those that are known
    good for 30 s.

    Args:
        path: The file of the keys.
        clock: Seconds that only grow.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = monotonic) -> None:
        self._file = KeyFile(path)
        self._clock = clock
        self._known: dict[bytes, tuple[ApiKey, Principal]] = {}
        self._db: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._version = -1
        self._checked_s = self._read_s = float("-inf")
        self._problem: str | None = None
        self._used: dict[bytes, int] = {}

    def find(self, key: bytes, now_ms: int) -> Principal | None:
        """Whose key it is; None if it is unknown, expired or revoked.

        Raises KeysUnknownError if the file could not be read for 30 s.
        """
        now_s = self._clock()
        if now_s - self._checked_s >= CHECK_S:
            self._check(now_s)
        if now_s - self._read_s > KNOWN_S:
            raise KeysUnknownError(f"the keys cannot be read: {self._problem}")
        digest = digest_of_key(key)
        found = self._known.get(digest)
        if found is None:
            return None
        known, principal = found
        state = known.state(now_ms)
        if state != "good":
            log.info("a key was refused", key=known.key_id, name=known.name, state=state)
            return None
        hour_ms = now_ms - now_ms % _HOUR_MS
        if known.used_ms is None or known.used_ms < hour_ms:
            self._used[digest] = hour_ms
        return principal

    def note_used(self) -> None:
        """Write down which keys were used, to the hour: each key once an hour. For a thread: it waits for the disk."""
        used, self._used = self._used, {}
        fresh = {
            digest: ms for digest, ms in used.items() if (each := self._known.get(digest)) and each[0].used_ms != ms
        }
        if not fresh:
            return
        try:
            self._file.used(fresh)
        except (CrosslineError, OSError) as error:
            log.warning("when keys were last used is not noted", reason=str(error))

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _check(self, now_s: float) -> None:
        """Read the keys again where the file changed, or is another one."""
        self._checked_s = now_s
        try:
            self._read_again()
        except FileNotFoundError:
            self.close()
            self._place, self._known = None, {}
            self._report("there is no such file")
        except (CrosslineError, sqlite3.Error, OSError, ValueError) as error:
            if not isinstance(error, sqlite3.OperationalError):
                self.close()
            self._report(str(error))
            return
        else:
            self._report(None)
        self._read_s = now_s

    def _read_again(self) -> None:
        there = self._file.path.stat()
        place = (there.st_dev, there.st_ino)
        if self._db is None or place != self._place:
            self.close()
            self._db, self._place, self._version = self._file.connect(0.0), place, -1
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        keys = read_keys(self._db)
        self._known = {
            each.digest: (each, Principal(each.name, frozenset(each.scopes), "key", each.expires_ms)) for each in keys
        }
        self._version = version

    def _report(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
            with suppress(OSError):
                if problem is None:
                    log.info("the keys are read", file=str(self._file.path))
                else:
                    log.warning("the keys cannot be read", file=str(self._file.path), reason=problem)
