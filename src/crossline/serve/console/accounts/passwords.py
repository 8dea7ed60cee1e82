"""Passwords of local users: checked when they are chosen, kept as argon2id, compared at one pace."""

from __future__ import annotations

import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from crossline.basics.errors import UsageError

CHARS_MIN, BYTES_MAX = 12, 1_024
_FEW = 5  # different characters that a password has at least


class Passwords:
    """Makes and compares hashes (argon2id, the parameters of RFC 9106 for little memory: 64 MiB, 3 passes).

    Args:
        hasher: Of argon2; tests take a faster one.
    """

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._unknown = self._hasher.hash("of no user")

    def hash(self, password: str) -> str:
        """What is kept of a password."""
        return self._hasher.hash(_plain(password))

    def fits(self, kept: str | None, password: str) -> bool:
        """Whether ``password`` has the hash ``kept``. None, for an unknown user, takes as long as a wrong password."""
        if len(password.encode("utf-8", "replace")) > BYTES_MAX:
            password, kept = "", None
        try:
            self._hasher.verify(self._unknown if kept is None else kept, _plain(password))
        except (VerificationError, InvalidHashError):
            return False
        return kept is not None

    def is_old(self, kept: str) -> bool:
        """Whether ``kept`` was made with other parameters than today's."""
        return self._hasher.check_needs_rehash(kept)


def check_password(password: str, name: str) -> None:
    """Raise UsageError if a password is one that is tried first: too short, of few characters, or with the name."""
    plain = _plain(password)
    if len(plain) < CHARS_MIN:
        raise UsageError(f"found a password of {len(plain)} characters; expected at least {CHARS_MIN}")
    if len(plain.encode()) > BYTES_MAX:
        raise UsageError(f"found a password of more than {BYTES_MAX:,} bytes; expected a shorter one")
    if len(set(plain)) < _FEW:
        raise UsageError(
            f"found a password of fewer than {_FEW} different characters; expected one that is not guessed"
        )
    if name.casefold() in plain.casefold():
        raise UsageError("found a password that has the user's name in it; expected one that is not guessed")


def _plain(password: str) -> str:
    """One text for what is typed alike on two keyboards."""
    return unicodedata.normalize("NFKC", password)
