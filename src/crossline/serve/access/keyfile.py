"""The file of the API keys: SQLite, which no other user of the machine can read, and which contains no key.

A key is ``clk_`` and 256 bits from the system's source, in 43 characters. The file has its SHA-256. A slow hash
(bcrypt, scrypt, Argon2) is for what people choose: there a thief of the file tries all likely words, and each try must
cost him. Of 2^256 keys none is likelier than another, so a fast hash gives nothing away; and a slow one would cost each
request what it costs a thief.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from crossline.basics.errors import PermanentError, RetryableError, StateError, UsageError
from crossline.basics.texts.problems import nearest, one_of
from crossline.io.private_files import check_private
from crossline.rule_registry.sources.principals import ALPHABET, name_problem, same_principal

PREFIX = "clk_"
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 43  # 62^43 > 2^256
KEY = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_LENGTH}}}", re.ASCII)
_VERSION = 1
_WAIT_S = 10.0
_TABLE = """\
CREATE TABLE keys (
  digest BLOB PRIMARY KEY, key_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, scopes TEXT NOT NULL,
  created_ms INTEGER NOT NULL, expires_ms INTEGER, revoked_ms INTEGER, used_ms INTEGER
) WITHOUT ROWID, STRICT"""
_COLUMNS = "digest, key_id, name, scopes, created_ms, expires_ms, revoked_ms, used_ms"

State = Literal["good", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, without itself: ``key_id`` is the begin of its digest. Times are epoch milliseconds.

    ``expires_ms``: None if it has no end. ``used_ms``: when it was last used, to the hour; None: not yet.
    """

    digest: bytes
    key_id: str
    name: str
    scopes: tuple[str, ...]
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None
    used_ms: int | None

    def state(self, now_ms: int) -> State:
        """Whether it opens anything now."""
        if self.revoked_ms is not None:
            return "revoked"
        return "expired" if self.expires_ms is not None and self.expires_ms <= now_ms else "good"

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """As commands print it."""
        body = {
            name: getattr(self, name)
            for name in ("key_id", "name", "created_ms", "expires_ms", "revoked_ms", "used_ms")
        }
        return {**body, "scopes": list(self.scopes), "state": self.state(now_ms)}


def new_key() -> str:
    """A new random key."""
    number, letters = secrets.randbits(256), []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return PREFIX + "".join(letters)


def digest_of_key(key: str | bytes) -> bytes:
    """What the file has of a key."""
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).digest()


class KeyFile:
    """Makes, rotates and revokes keys. Each call is a transaction of its own; a running server sees it within a second.

    Args:
        path: The file (``serve.keys``); made by the first ``create``, readable for its owner alone.

    Example:
        key, made = KeyFile(Path("keys.db")).create("checkout", ["decide:payments"], now_ms=now, expires_ms=None)
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, name: str, scopes: Sequence[str], *, now_ms: int, expires_ms: int | None) -> tuple[str, ApiKey]:
        """A new key, which is shown this once, and what the file has of it.

        Raises UsageError if the name is no principal's, or looks like that of another key.
        """
        if (problem := name_problem(name)) is not None:
            raise UsageError(f"--name: found {problem}; expected {ALPHABET}")
        if not scopes:
            raise UsageError("found no scope; expected at least one --scope, such as decide:payments")
        with self._transaction(make=True) as db:
            for each in self._read(db):
                if each.state(now_ms) == "good" and same_principal(each.name, name):
                    raise UsageError(
                        f"found key {each.key_id} of {each.name}, which is good; expected a name that looks different. "
                        f"A second key of that name: crossline serve keys rotate --name {each.name}"
                    )
            return self._insert(db, name, tuple(sorted(set(scopes))), now_ms, expires_ms)

    def rotate(
        self, name: str, *, now_ms: int, grace_ms: int, expires_ms: int | None
    ) -> tuple[str, ApiKey, list[ApiKey]]:
        """Another key of the same name and scopes; those that were good stay so for ``grace_ms``, or to their own end.

        Returns the new key, what the file has of it, and the old ones with their ends.
        """
        with self._transaction() as db:
            old = [each for each in self._named(db, name) if each.state(now_ms) == "good"]
            if not old:
                raise PermanentError(f"found no good key of {name}; expected one to rotate. Make one: keys create")
            end = now_ms + grace_ms
            db.execute(
                "UPDATE keys SET expires_ms = ? WHERE name = ? AND revoked_ms IS NULL "
                "AND (expires_ms IS NULL OR expires_ms > ?)",
                (end, name, end),
            )
            scopes = max(old, key=lambda each: each.created_ms).scopes
            key, made = self._insert(db, name, scopes, now_ms, expires_ms)
            ids = {each.key_id for each in old}
            return key, made, [each for each in self._read(db) if each.key_id in ids]

    def revoke(self, name: str | None, key_id: str | None, *, now_ms: int) -> list[ApiKey]:
        """End all keys of ``name``, or the one of ``key_id``, now; gives those that were not revoked before."""
        with self._transaction() as db:
            if key_id is not None:
                found = [each for each in self._read(db) if each.key_id == key_id and name in {None, each.name}]
                if not found:
                    raise PermanentError(f"found no key of id {key_id}; expected one of: crossline serve keys list")
            else:
                found = self._named(db, name or "")
            ended = [each for each in found if each.revoked_ms is None]
            db.executemany("UPDATE keys SET revoked_ms = ? WHERE digest = ?", [(now_ms, each.digest) for each in ended])
            return ended

    def listed(self) -> list[ApiKey]:
        """All of them, the oldest first; none where there is no file."""
        if not self.path.exists():
            return []
        with self._open() as db:
            return self._read(db)

    def used(self, at_ms: dict[bytes, int]) -> None:
        """Note when keys, by digest, were last used."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE keys SET used_ms = ?1 WHERE digest = ?2 AND (used_ms IS NULL OR used_ms < ?1)",
                [(ms, digest) for digest, ms in at_ms.items()],
            )

    def connect(self, wait_s: float) -> sqlite3.Connection:
        """A connection to the file, once it is checked that no other user can read or write it.

        Raises StateError if others can, or where it is no file of keys; OSError where it is not there.
        """
        check_private(self.path)
        db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", timeout=wait_s, isolation_level=None, uri=True)
        try:
            _check_version(db, self.path)
        except BaseException as error:
            db.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise _damaged(self.path, error) from None
            raise
        return db

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(self.connect(_WAIT_S)) as db:
                yield db
        except FileNotFoundError:
            raise PermanentError(
                f"found no file {self.path}; expected keys, which crossline serve keys create makes"
            ) from None
        except sqlite3.OperationalError as error:
            raise RetryableError(f"the keys in {self.path} cannot be read or written now: {error}") from error
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from None

    @contextmanager
    def _transaction(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        if make:
            self._make()
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            if db.execute("PRAGMA user_version").fetchone()[0] == 0:
                db.execute(_TABLE)
                db.execute(f"PRAGMA user_version = {_VERSION}")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def _make(self) -> None:
        """The file has its rights before it has a byte; the journal that SQLite writes beside it gets the same."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))

    def _insert(
        self, db: sqlite3.Connection, name: str, scopes: tuple[str, ...], now_ms: int, expires_ms: int | None
    ) -> tuple[str, ApiKey]:
        key = new_key()
        digest = digest_of_key(key)
        made = ApiKey(digest, digest.hex()[:12], name, scopes, now_ms, expires_ms, None, None)
        row = (digest, made.key_id, name, orjson.dumps(scopes).decode(), now_ms, expires_ms, None, None)
        db.execute(f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - our own names
        return key, made

    def _named(self, db: sqlite3.Connection, name: str) -> list[ApiKey]:
        known = self._read(db)
        found = [each for each in known if each.name == name]
        if not found:
            names = sorted({each.name for each in known})
            hint = nearest(name, names)
            text = (
                f"found no key of {name}; expected {one_of(names) if names else 'a key: crossline serve keys create'}"
            )
            raise PermanentError(f"{text}; {hint}" if hint else text)
        return found

    @staticmethod
    def _read(db: sqlite3.Connection) -> list[ApiKey]:
        return read_keys(db)


def read_keys(db: sqlite3.Connection) -> list[ApiKey]:
    """All keys, the oldest first."""
    if db.execute("PRAGMA user_version").fetchone()[0] == 0:
        return []  # made, and killed before its first key
    rows = db.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY created_ms, key_id").fetchall()  # noqa: S608 - as above
    return [ApiKey(bytes(row[0]), row[1], row[2], tuple(orjson.loads(row[3])), *row[4:]) for row in rows]


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in {0, _VERSION}:
        raise StateError(f"{path}: found keys of version {version}; expected {_VERSION}, which this program reads")


def _damaged(path: Path, error: sqlite3.DatabaseError) -> StateError:
    return StateError(f"{path}: found what is no file of keys ({error}); expected one that serve keys create made")
