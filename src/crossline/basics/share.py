"""A share of keys: which keys a rule version decides about while others are left to the version before it.

The slot of a key is a pure function of the rule's id and of the key, published and the same for ever: the first 64 bits
of SHA-256 of the id, the byte 1F and the key as compact JSON, as a share of 2^64 in millionths. A version with a share
has the keys whose slot is below it. So a share that grows keeps the keys that it had.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from crossline.basics.fields import KeyValue, canonical_key

SLOTS = 1_000_000
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)\s*%", re.ASCII)
SHARE_FORM = "a share of keys from 0% to 100%, such as 10% or 0.5%"


def slots_of(share: str) -> int:
    """How many of the million slots a share has.

    >>> slots_of("10%"), slots_of("0.0001%"), slots_of("100%")
    (100000, 1, 1000000)
    """
    return int(Fraction(share.rstrip("% ")) * (SLOTS // 100))


def keys_of(share: str | None) -> int:
    """As ``slots_of``; without a share all."""
    return SLOTS if share is None else slots_of(share)


def slot_of(rule_id: str, key: Mapping[str, KeyValue]) -> int:
    """The slot of a key, 0 to 999,999.

    >>> slot_of("card_burst", {"account_id": "a1"})
    831800
    """
    digest = hashlib.sha256(f"{rule_id}\x1f{canonical_key(key)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * SLOTS >> 64


@dataclass(frozen=True, slots=True)
class Slots:
    """Those from ``first`` up to ``end``, which is not one of them."""

    first: int
    end: int

    def has(self, rule_id: str, key: Mapping[str, KeyValue]) -> bool:
        """Whether a key is among them."""
        return self.first <= slot_of(rule_id, key) < self.end

    @property
    def text(self) -> str:
        """As a share: of the version that has the others, what is left.

        >>> Slots(0, 100_000).text, Slots(100_000, SLOTS).text, Slots(0, 1).text
        ('10%', '90%', '0.0001%')
        """
        share = (self.end - self.first) * 100 / SLOTS
        return f"{share:.4f}".rstrip("0").rstrip(".") + "%"


def read_share(text: str) -> str:
    """A share in one way of writing it. Raises ValueError for what is none.

    >>> read_share("10.50 %")
    '10.5%'
    """
    found = _SHARE.fullmatch(text.strip())
    if found is None or Fraction(found[1]) > 100:
        raise ValueError(f"expected {SHARE_FORM}")
    return Slots(0, slots_of(text)).text
