"""What a delivered item is known by in table ``delivered``: its identity, its month, and the time that it is of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import numpy as np

from crossline.basics.values import I64

IDENTITY_BYTES = 16
START = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL counts days and microseconds from then on
COPY_BEGIN, COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
# A row of ``delivered`` in PostgreSQL's binary form: how many fields there are, then the size of each and the field.
_ROW = np.dtype(
    [
        *(("fields", ">i2"), ("size", ">i4"), ("identity", f"V{IDENTITY_BYTES}")),
        *(("month_size", ">i4"), ("month", ">i4"), ("at_size", ">i4"), ("at", ">i8")),
    ]
)


def identity_start(pipeline: str, table: str) -> bytes:
    """What the encoded names of all items of a table begin with (see ``identity``)."""
    return json.dumps([pipeline, table])[:-1].encode()


def identity(start: bytes, name: Sequence[object]) -> bytes:
    """The 128-bit identity of an item: a digest of its pipeline, its table and its name, as a JSON list.

    Stored identities must stay the same, so that list is as ``json.dumps`` writes it: with a space behind each comma,
    and with escapes for all that is not ASCII, since no text is beyond those.
    """
    encoded = "".join([f", {_quoted(each) if isinstance(each, str) else json.dumps(each)}" for each in name])
    return hashlib.blake2b(start + encoded.encode() + b"]", digest_size=IDENTITY_BYTES).digest()


def delivered_rows(identities: Sequence[bytes], months: Sequence[str], micros: I64) -> bytes:
    """Rows of table ``delivered`` in PostgreSQL's binary form, in the order of the identities.

    Two that deliver the same wait for each other in that order, and not in a ring.
    """
    days = {each: (date.fromisoformat(each) - START.date()).days for each in set(months)}
    joined = b"".join(identities)
    rows = np.empty(len(identities), _ROW)
    rows["fields"] = 3
    rows["size"], rows["identity"] = IDENTITY_BYTES, np.frombuffer(joined, _ROW["identity"])
    rows["month_size"], rows["month"] = 4, [days[each] for each in months]
    rows["at_size"], rows["at"] = 8, micros
    high, low = np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2).T
    return b"".join([COPY_BEGIN, rows[np.lexsort((low, high))].tobytes(), COPY_END])


def instant_of(text: str) -> datetime:
    """An instant of what is delivered; raises ValueError where it is none."""
    read = datetime.fromisoformat(text)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def micros_of(instant: datetime) -> int:
    """As PostgreSQL counts it."""
    return (instant - START) // timedelta(microseconds=1)


def month_of(instant: str) -> str:
    """The first day of its month."""
    return _first_day(instant[:7])


_quoted = json.encoder.encode_basestring_ascii


@lru_cache(maxsize=1_000)
def _first_day(month: str) -> str:
    return date(int(month[:4]), int(month[5:7]), 1).isoformat()
