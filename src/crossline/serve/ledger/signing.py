"""Ed25519 signatures of receipts: keys from files, and what they say about themselves."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from crossline.basics.errors import UsageError

# Signed before the digest: a signature under this key never means anything else.
_MEANING = b"crossline receipt 1\n"
_KEY_ID_DIGITS = 16
_KEY_BYTES_MAX = 16 << 10
_MAKE = "make one with: openssl genpkey -algorithm ed25519 -out signing.pem"
_SHARE = "the public part is given by: openssl pkey -in signing.pem -pubout -out signing.pub.pem"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs digests of receipts. ``key_id``, in each receipt, names the public key to check it with."""

    key: Ed25519PrivateKey
    key_id: str

    @staticmethod
    def from_file(path: str | Path) -> Signer:
        """The key in a PEM file. Raises UsageError if it is none that can be used."""
        data = _read(path, f"an Ed25519 private key in PEM form; {_MAKE}")
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise _no_key(
                path, str(error), f"an Ed25519 private key in PEM form, without a password; {_MAKE}"
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _no_key(path, "a key of another kind", f"an Ed25519 private key; {_MAKE}")
        return Signer(key, key_id_of(key.public_key()))

    def sign(self, digest: str) -> str:
        """The signature of a receipt's digest, in base64."""
        return base64.b64encode(self.key.sign(_MEANING + digest.encode())).decode()

    def public(self) -> Verifier:
        """What checks these signatures."""
        return Verifier(self.key.public_key(), self.key_id)


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks signatures with one public key."""

    key: Ed25519PublicKey
    key_id: str

    @staticmethod
    def from_file(path: str | Path) -> Verifier:
        """The public key in a PEM file. Raises UsageError if it is none that can be used."""
        data = _read(path, f"an Ed25519 public key in PEM form; {_SHARE}")
        if b"PRIVATE KEY" in data:
            raise _no_key(path, "a private key", f"the public key alone; {_SHARE}")
        try:
            key = load_pem_public_key(data)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise _no_key(path, str(error), f"an Ed25519 public key in PEM form; {_SHARE}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise _no_key(path, "a key of another kind", f"an Ed25519 public key; {_SHARE}")
        return Verifier(key, key_id_of(key))

    def holds(self, digest: str, signature: str) -> bool:
        """Whether ``signature`` is one of this key over a receipt's digest."""
        try:
            self.key.verify(base64.b64decode(signature, validate=True), _MEANING + digest.encode())
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True


def key_id_of(key: Ed25519PublicKey) -> str:
    """64 bits of SHA-256 of the raw public key, in hex."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:_KEY_ID_DIGITS]


def _read(path: str | Path, expected: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_KEY_BYTES_MAX)
    except OSError as error:
        raise _no_key(path, error.strerror or "an error", expected) from None


def _no_key(path: str | Path, found: str, expected: str) -> UsageError:
    return UsageError(f"key file {path}: found {found}; expected {expected}")
