"""What a delivered item is known by in table ``delivered``: its identity, and the month that it is of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import date
from functools import lru_cache

COPY_BEGIN, COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_UUID, _DATE = b"\0\2\0\0\0\x10", b"\0\0\0\4"  # begin a row of two fields, the first of 16 bytes; one of 4
_START = date(2000, 1, 1)


def identity_start(pipeline: str, table: str) -> bytes:
    """What the encoded names of all items of a table begin with (see ``identity``)."""
    return json.dumps([pipeline, table])[:-1].encode()


def identity(start: bytes, name: Sequence[object]) -> str:
    """The 128-bit identity of an item: a digest of its pipeline, its table and its name, as a JSON list.

    Stored identities must stay the same, so that list is as ``json.dumps`` writes it: with a space behind each comma,
    and with escapes for all that is not ASCII, since no text is beyond those.
    """
    encoded = "".join([f", {_quoted(each) if isinstance(each, str) else json.dumps(each)}" for each in name])
    return hashlib.blake2b(start + encoded.encode() + b"]", digest_size=16).hexdigest()


def delivered_rows(identities: Sequence[str], months: Sequence[str]) -> bytes:
    """Rows of table ``delivered`` in PostgreSQL's binary form, in the order of the identities.

    Two that deliver the same wait for each other in that order, and not in a ring.
    """
    days = {each: (date.fromisoformat(each) - _START).days for each in set(months)}
    ends = {each: _DATE + count.to_bytes(4, "big", signed=True) for each, count in days.items()}
    rows = [_UUID + bytes.fromhex(each) + ends[month] for each, month in sorted(zip(identities, months, strict=True))]
    return b"".join([COPY_BEGIN, *rows, COPY_END])


_quoted = json.encoder.encode_basestring_ascii


def month_of(instant: str) -> str:
    """The first day of its month."""
    return _first_day(instant[:7])


@lru_cache(maxsize=1_000)
def _first_day(month: str) -> str:
    return date(int(month[:4]), int(month[5:7]), 1).isoformat()
