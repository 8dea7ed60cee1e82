"""The token of one value: part of an HMAC under the key of a person."""

from __future__ import annotations

import base64
import hmac

from crossline.basics.streams.sensitive import DIGITS, PREFIX, TOKEN

KEY_BYTES = 32
_BYTES = DIGITS * 5 // 8  # base32 has 5 bits a digit


def token_of(key: bytes, domain: str, value: str) -> str:
    """The token of ``value``, a field's value as text, in ``domain`` under the ``key`` of its person.

    ``tok_`` and the first 120 bits of HMAC-SHA256(key, domain, NUL, value) in lower-case base32. Domains have no NUL.
    """
    digest = hmac.digest(key, f"{domain}\0{value}".encode("utf-8", "surrogatepass"), "sha256")
    return PREFIX + base64.b32encode(digest[:_BYTES]).decode().lower()


def is_token(value: str) -> bool:
    """Whether ``value`` has the form of a token."""
    return value.startswith(PREFIX) and TOKEN.fullmatch(value) is not None
