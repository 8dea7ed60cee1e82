"""The master key: names persons without saying who they are, and wraps their keys."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from pathlib import Path

from crossline.basics.errors import PermanentError
from crossline.basics.streams.sensitive import MASTER_KEY_ENV, TokenSettings
from crossline.ingest.tokens.token import KEY_BYTES

SECRET_CHARS_MIN = 32
_NONCE, _TAG = 16, 16
_NAME_DIGITS = 12
_MAKE = "make one with: openssl rand -hex 32"


class MasterKey:
    """What is derived from the secret.

    A wrapped key is a nonce, the key XOR HMAC(wrapping key, nonce, person), and an HMAC over both and the person. A
    nonce is random and used once, so each pad is; the tag is checked before anything is unwrapped.
    """

    def __init__(self, secret: bytes, *, root: bytes | None = None) -> None:
        self.root = root or hmac.digest(b"crossline token store 1", secret, "sha256")
        self.naming, self._padding, self._sealing, self.check = (
            hmac.digest(self.root, use, "sha256") for use in (b"person", b"pad", b"seal", b"check")
        )

    @classmethod
    def of_root(cls, root: bytes) -> MasterKey:
        """The master key whose ``root`` a store has, wrapped under another one."""
        return cls(b"", root=root)

    @property
    def name(self) -> str:
        """What people call it by: twelve hex digits that do not give the key.

        >>> MasterKey(b"0" * 64).name
        'af3cd62adb03'
        """
        return name_of(self.check)

    def person_id(self, domain: str, person: str) -> bytes:
        """What a person is called in a store that was made with this key, 32 bytes."""
        return person_id(self.naming, domain, person)

    def wrap(self, person_id: bytes, key: bytes) -> bytes:
        """A key as the store has it."""
        nonce = os.urandom(_NONCE)
        body = nonce + self._xor(nonce, person_id, key)
        return body + hmac.digest(self._sealing, person_id + body, "sha256")[:_TAG]

    def unwrap(self, person_id: bytes, wrapped: bytes) -> bytes | None:
        """The key; None where it was changed, or was wrapped for another person or by another key."""
        body, tag = wrapped[:-_TAG], wrapped[-_TAG:]
        sealed = hmac.digest(self._sealing, person_id + body, "sha256")[:_TAG]
        if len(wrapped) != _NONCE + KEY_BYTES + _TAG or not hmac.compare_digest(sealed, tag):
            return None
        return self._xor(body[:_NONCE], person_id, body[_NONCE:])

    def _xor(self, nonce: bytes, person_id: bytes, data: bytes) -> bytes:
        pad = hmac.digest(self._padding, nonce + person_id, "sha256")
        return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(KEY_BYTES, "big")


def name_of(check: bytes) -> str:
    """See ``MasterKey.name``; a store has the ``check`` of its master key."""
    return check.hex()[:_NAME_DIGITS]


def person_id(naming: bytes, domain: str, person: str) -> bytes:
    """What a person is called in a store, 32 bytes. ``naming``: the key of the store for names."""
    return hmac.digest(naming, f"{domain}\0{person}".encode("utf-8", "surrogatepass"), "sha256")


def read_master_key(settings: TokenSettings, environment: Mapping[str, str] = os.environ) -> MasterKey:
    """The master key that the settings name. Raises PermanentError where there is none."""
    if settings.master_key_file is not None:
        where = f"master_key_file {settings.master_key_file}"
        try:
            secret = Path(settings.master_key_file).read_bytes().strip()
        except OSError as error:
            raise PermanentError(
                f"{where} cannot be read: {error.strerror}; expected the master key of the tokens; {_MAKE}"
            ) from None
    else:
        name = settings.master_key_env or MASTER_KEY_ENV
        where = f"environment variable {name}"
        secret = os.fsencode(environment.get(name, "")).strip()
        if not secret:
            raise PermanentError(
                f"{where} is not set; expected the master key of the token store, as streams have sensitive fields: "
                f"export it; {_MAKE}"
            )
    if len(secret) < SECRET_CHARS_MIN:
        raise PermanentError(
            f"{where}: found {len(secret)} characters, expected a master key of at least {SECRET_CHARS_MIN}; {_MAKE}"
        )
    return MasterKey(secret)
