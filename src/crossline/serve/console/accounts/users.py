"""The file of local users: names, roles, and of passwords what argon2id makes of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.texts.problems import nearest, one_of
from crossline.io.private_database import PrivateDatabase
from crossline.rule_registry.sources.principals import ALPHABET, name_problem, same_principal
from crossline.serve.access.roles import ROLES, scopes_of_roles
from crossline.serve.console.accounts.passwords import Passwords, check_password

MADE_BY = "crossline serve users create"
ROLES_MAX = 8
_VERSION = 1
_TABLE = """\
CREATE TABLE users (
  name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT NOT NULL, created_ms INTEGER NOT NULL,
  password_ms INTEGER NOT NULL, disabled_ms INTEGER
) WITHOUT ROWID, STRICT"""
_COLUMNS = "name, roles, password, created_ms, password_ms, disabled_ms"


@dataclass(frozen=True, slots=True)
class User:
    """A local user. Times are epoch milliseconds; ``disabled_ms``: None if he may log in."""

    name: str
    roles: tuple[str, ...]
    password: str
    created_ms: int
    password_ms: int
    disabled_ms: int | None

    @property
    def scopes(self) -> frozenset[str]:
        """What the roles let him do."""
        return scopes_of_roles(self.roles)

    def to_json(self) -> dict[str, Any]:
        """As commands print it and the audit log has it: without the password."""
        body = {name: getattr(self, name) for name in ("name", "created_ms", "password_ms", "disabled_ms")}
        return {**body, "roles": list(self.roles)}


class UserFile:
    """Makes, lists, changes and disables local users; a running console sees it at the next request.

    Args:
        path: The file (``serve.users``).
        passwords: What hashes.

    Example:
        UserFile(Path("users.db")).create("ines.vale", ["analyst"], "a long password", now_ms=now)
    """

    def __init__(self, path: Path, passwords: Passwords | None = None) -> None:
        self.path = path
        self.passwords = passwords or Passwords()
        self._db = PrivateDatabase(path, _VERSION, (_TABLE,), MADE_BY)

    def create(self, name: str, roles: Sequence[str], password: str, *, now_ms: int) -> User:
        """A new user. Raises UsageError if the name, a role or the password will not do."""
        if (problem := name_problem(name)) is not None:
            raise UsageError(f"--name: found {problem}; expected {ALPHABET}")
        check_password(password, name)
        made = User(name, checked_roles(roles), self.passwords.hash(password), now_ms, now_ms, None)
        with self._db.writing() as db:
            for each in _read(db):
                if same_principal(each.name, name):
                    raise UsageError(
                        f"--name: found {name}, which looks like {each.name}, an existing user; expected another name"
                    )
            row = (name, orjson.dumps(made.roles).decode(), made.password, now_ms, now_ms, None)
            db.execute(f"INSERT INTO users ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - our own names
        return made

    def listed(self) -> list[User]:
        """All users by name; none where there is no file."""
        if not self.path.exists():
            return []
        with self._db.reading() as db:
            return _read(db)

    def find(self, name: str) -> User | None:
        """The user of that name; None if there is none."""
        if not self.path.exists():
            return None
        with self._db.reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM users WHERE name = ?", (name,)).fetchone()  # noqa: S608 - as above
        return None if row is None else _user(row)

    def set_password(self, name: str, password: str, *, now_ms: int) -> User:
        """Another password."""
        check_password(password, name)
        return self._change(name, "password = ?, password_ms = ?", (self.passwords.hash(password), now_ms))

    def renew_hash(self, user: User, password: str) -> None:
        """Keep a password that fitted by today's parameters; its age stays, so no session ends."""
        self._change(user.name, "password = ?", (self.passwords.hash(password),))

    def set_roles(self, name: str, roles: Sequence[str]) -> User:
        """Other roles."""
        return self._change(name, "roles = ?", (orjson.dumps(checked_roles(roles)).decode(),))

    def disable(self, name: str, *, now_ms: int) -> User:
        """Disable the user, also where he is logged in."""
        return self._change(name, "disabled_ms = coalesce(disabled_ms, ?)", (now_ms,))

    def enable(self, name: str) -> User:
        """He may log in again."""
        return self._change(name, "disabled_ms = NULL", ())

    def set_back(self, name: str, now_ms: int) -> None:
        """Where a password is of a time to come, by a clock that was set back since, it is one of now.

        Sessions that began before a password are over: else no user could log in until that time has come.
        """
        if not self.path.exists():
            return
        with self._db.writing() as db:
            db.execute("UPDATE users SET password_ms = ? WHERE name = ? AND password_ms > ?", (now_ms, name, now_ms))

    def _change(self, name: str, what: str, values: Sequence[Any]) -> User:
        if not self.path.exists():
            raise PermanentError(f"found no file {self.path}; expected users, which {MADE_BY} makes")
        with self._db.writing() as db:
            db.execute(f"UPDATE users SET {what} WHERE name = ?", (*values, name))  # noqa: S608 - as above
            users = {each.name: each for each in _read(db)}
        if name not in users:
            hint = nearest(name, users)
            text = f"found no user {name}; expected {one_of(sorted(users)) if users else MADE_BY}"
            raise PermanentError(f"{text}; {hint}" if hint else text)
        return users[name]


def checked_roles(roles: Sequence[str]) -> tuple[str, ...]:
    """``roles`` in the order of the table. Raises UsageError if there is none, or one that is not known."""
    for role in roles:
        if role not in ROLES:
            hint = nearest(role, ROLES)
            raise UsageError(f"--role: found {role}; expected {one_of(ROLES)}" + (f"; {hint}" if hint else ""))
    if not roles:
        raise UsageError(f"found no role; expected at least one of {one_of(ROLES)}")
    return tuple(each for each in ROLES if each in roles)


def _read(db: sqlite3.Connection) -> list[User]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM users ORDER BY name")  # noqa: S608 - as above
    return [_user(row) for row in rows]


def _user(row: Sequence[Any]) -> User:
    return User(row[0], tuple(orjson.loads(row[1])), *row[2:])
