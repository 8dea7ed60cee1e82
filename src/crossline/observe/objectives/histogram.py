"""How often which value came: counts by buckets of a width of 2 %, which add up over minutes and processes.

Bounds of buckets are the limit of the objective times powers of 2^(1/32), so the limit itself is one: of a percentile's
value and of the share that keeps the limit both say the same. From the millionth of the limit to its million-fold there
are 1,281 buckets, and there are never more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from fractions import Fraction
from math import ceil, log2

import numpy as np
import numpy.typing as npt

PER_DOUBLING = 32
REACH = 20 * PER_DOUBLING  # buckets on each side of the limit
SIZE = 2 * REACH + 1
WIDTH = 2 ** (1 / PER_DOUBLING)

Values = npt.NDArray[np.float64]
Buckets = npt.NDArray[np.int64]  # how many values, by bucket; the one at ``REACH`` ends at the limit


def empty() -> Buckets:
    """Nothing came."""
    return np.zeros(SIZE, np.int64)


def counted(values: Values, limit: float) -> Buckets:
    """How often values came. What is below all buckets is in the first, what is above in the last.

    Args:
        values: In the unit of the limit; 0 and less are in the first bucket.
        limit: Above 0.
    """
    ratio = np.maximum(values, limit * 2.0**-21) / limit
    place = np.ceil(PER_DOUBLING * np.log2(ratio))
    place = np.where(values <= limit, np.minimum(place, 0), np.maximum(place, 1))  # whatever rounding makes of it
    return np.bincount(np.clip(place, -REACH, REACH).astype(np.int64) + REACH, minlength=SIZE)


def bucket_of(value: float, limit: float) -> int:
    """The bucket of one value; as ``counted`` has it."""
    if value <= limit * 2.0**-21:
        return 0
    place = ceil(PER_DOUBLING * log2(value / limit))
    place = min(place, 0) if value <= limit else max(place, 1)
    return min(REACH, max(-REACH, place)) + REACH


def kept_of(buckets: Buckets) -> int:
    """How many values were at most the limit."""
    return int(buckets[: REACH + 1].sum())


def value_at(buckets: Buckets, share: Fraction, limit: float) -> float | None:
    """The least bound below which at least ``share`` of the values lie (by nearest rank); None where none came.

    It is at most 2.2 % above the value itself. 0 stands for the first bucket; in the last one values have no bound.

    >>> value_at(counted(np.array([100.0, 200.0, 250.0, 900.0]), 250.0), Fraction(3, 4), 250.0)
    250.0
    """
    total = int(buckets.sum())
    if not total:
        return None
    place = int(np.searchsorted(buckets.cumsum(), ceil(share * total)))
    return 0.0 if place == 0 else limit * 2.0 ** ((place - REACH) / PER_DOUBLING)


def encode_buckets(buckets: Buckets) -> bytes:
    """As bytes: those that have any."""
    (places,) = np.nonzero(buckets)
    counts = np.minimum(buckets[places], np.iinfo(np.uint32).max)
    return zlib.compress(places.astype("<u2").tobytes() + counts.astype("<u4").tobytes())


def add_buckets(into: Buckets, parts: Iterable[bytes]) -> Buckets:
    """``into``, with what ``encode_buckets`` made of others."""
    for each in parts:
        data = zlib.decompress(each)
        split = len(data) // 6 * 2
        into[np.frombuffer(data[:split], "<u2")] += np.frombuffer(data[split:], "<u4")
    return into
