"""How a message is signed, and how its receiver checks the signature.

The header ``Crossline-Signature`` is ``t=SECONDS,v1=HEX``: the HMAC-SHA256, under the shared key, of the seconds since
1970 as text, a full stop, and the body as it came. The instant is signed too, so that a receiver can
reject a recorded message that is replayed later.
"""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Crossline-Signature"
TOLERANCE_S = 300


def signature(key: bytes, body: bytes, at_s: int) -> str:
    """The value of the header for ``body`` sent at ``at_s``, seconds since 1970."""
    return f"t={at_s},v1={_mac(key, body, str(at_s))}"


def is_signed(key: bytes, body: bytes, header: str, now_s: int, tolerance_s: int = TOLERANCE_S) -> bool:
    """Whether ``header`` signs ``body``, at an instant no further from ``now_s`` than ``tolerance_s``."""
    parts = dict(each.partition("=")[::2] for each in header.split(","))
    at = parts.get("t", "")
    if not (at.isascii() and at.isdigit()) or abs(int(at) - now_s) > tolerance_s:
        return False
    return hmac.compare_digest(_mac(key, body, at).encode(), parts.get("v1", "").encode())


def _mac(key: bytes, body: bytes, at: str) -> str:
    return hmac.new(key, at.encode() + b"." + body, hashlib.sha256).hexdigest()
