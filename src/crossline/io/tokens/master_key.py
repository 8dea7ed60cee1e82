"""The master key: names persons without saying who they are, and wraps their keys."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from pathlib import Path

from crossline.basics.errors import PermanentError, StateError
from crossline.basics.streams.sensitive import MASTER_KEY_ENV, TokenSettings
from crossline.ingest.tokens.token import KEY_BYTES

SECRET_CHARS_MIN = 32
_NONCE, _TAG = 16, 16
_MAKE = "make one with: openssl rand -hex 32"


class MasterKey:
    """What is derived from the secret.

    A wrapped key is a nonce, the key XOR HMAC(wrapping key, nonce, person), and an HMAC over both and the person. A
    nonce is random and used once, so each pad is; the tag is checked before anything is unwrapped.
    """

    def __init__(self, secret: bytes) -> None:
        root = hmac.digest(b"crossline token store 1", secret, "sha256")
        self._naming, self._padding, self._sealing, self.check = (
            hmac.digest(root, use, "sha256") for use in (b"person", b"pad", b"seal", b"check")
        )

    def person_id(self, domain: str, person: str) -> bytes:
        """What a person is called in the store, 32 bytes."""
        return hmac.digest(self._naming, f"{domain}\0{person}".encode("utf-8", "surrogatepass"), "sha256")

    def wrap(self, person_id: bytes, key: bytes) -> bytes:
        """A key as the store has it."""
        nonce = os.urandom(_NONCE)
        body = nonce + self._xor(nonce, person_id, key)
        return body + hmac.digest(self._sealing, person_id + body, "sha256")[:_TAG]

    def unwrap(self, person_id: bytes, wrapped: bytes) -> bytes:
        """The key. Raises StateError where it was changed, or was wrapped for another person or by another key."""
        body, tag = wrapped[:-_TAG], wrapped[-_TAG:]
        sealed = hmac.digest(self._sealing, person_id + body, "sha256")[:_TAG]
        if len(wrapped) != _NONCE + KEY_BYTES + _TAG or not hmac.compare_digest(sealed, tag):
            raise StateError(
                "the token store: found a key of a person that was changed; expected it as it was written: restore the "
                "store from a backup"
            )
        return self._xor(body[:_NONCE], person_id, body[_NONCE:])

    def _xor(self, nonce: bytes, person_id: bytes, data: bytes) -> bytes:
        pad = hmac.digest(self._padding, nonce + person_id, "sha256")
        return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(KEY_BYTES, "big")


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
