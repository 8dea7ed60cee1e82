"""Whether a figure is distributed as it was: the population stability index of a week against the week before.

The index is the sum over groups of (now - before) * ln(now / before), of the shares of values in each group (N.
Siddiqi, Credit Risk Scorecards, 2006; it is the symmetric divergence of Jeffreys). By custom 0.1 is some shift and 0.25
a large one. Of few values it is large by chance: where nothing has changed it is about (1/n + 1/m) times a chi-squared
of groups - 1 degrees of freedom (B. Yurdakul and J. Naranjo, "Statistical properties of the population stability
index", Journal of Risk Model Validation 14 (2020) 89-100). A shift counts here where it is above both 0.25 and the 99th
percentile of that.

Limits: groups are tenths of the week before, made of whole buckets of 9 % each, so that a shift within a bucket is not
seen. Of a rule only its figures at alerts are known. A figure of few different values has few groups.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GROUPS = 10
VALUES_MIN = 30
SHIFT = 0.25
PER_OCTAVE, _ZERO_AT = 8, 9_000
_Z99 = 2.326348


def bucket_of(value: float) -> int:
    """The number of the bucket that a value is in: eight to each doubling, the order of values kept.

    >>> bucket_of(0), bucket_of(1), bucket_of(2), bucket_of(-1)
    (0, 9000, 9008, -9000)
    """
    if value == 0:
        return 0
    place = math.floor(PER_OCTAVE * math.log2(abs(value))) + _ZERO_AT
    return place if value > 0 else -place


def middle_of(bucket: int) -> float:
    """A value in the middle of a bucket.

    >>> bucket_of(middle_of(9031)), middle_of(0)
    (9031, 0.0)
    """
    if bucket == 0:
        return 0.0
    return math.copysign(2.0 ** ((abs(bucket) - _ZERO_AT + 0.5) / PER_OCTAVE), bucket)


def stability_index(before: Sequence[int], now: Sequence[int]) -> float:
    """Of counts in the same groups. Half a value is added to each group, so that an empty one is no infinity.

    >>> stability_index([50, 50], [50, 50])
    0.0
    """
    more = 0.5
    whole, other = sum(before) + more * len(before), sum(now) + more * len(now)
    shares = [((b + more) / whole, (n + more) / other) for b, n in zip(before, now, strict=True)]
    return sum((n - b) * math.log(n / b) for b, n in shares)


def by_chance(before: int, now: int, groups: int) -> float:
    """What the index of so many values exceeds once in 100 times where nothing has changed.

    The percentile of chi-squared is that of E. B. Wilson and M. M. Hilferty, "The distribution of chi-square", PNAS 17
    (1931) 684-688.

    >>> round(by_chance(1, 1, 10) / 2, 1)  # of 9 degrees of freedom tables say 21.67
    21.7
    """
    free = groups - 1
    part = 2 / (9 * free)
    return (1 / before + 1 / now) * free * (1 - part + _Z99 * math.sqrt(part)) ** 3


def groups_of(before: Mapping[int, int], now: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Counts by bucket, as counts in tenths of those of ``before``, and in a last group what is above all of these.

    >>> groups_of({9000: 5, 9008: 5}, {9000: 1, 9016: 2})
    ([5, 5, 0], [1, 0, 2])
    """
    whole, edges, seen, tenth = sum(before.values()), list[int](), 0, 1
    for bucket in sorted(before):
        seen += before[bucket]
        if seen * GROUPS >= whole * tenth:
            edges.append(bucket)
            tenth = seen * GROUPS // whole + 1
    return _grouped(before, edges), _grouped(now, edges)


def _grouped(counts: Mapping[int, int], edges: Sequence[int]) -> list[int]:
    groups = [0] * (len(edges) + 1)
    for bucket, count in counts.items():
        groups[bisect_left(edges, bucket)] += count
    return groups


def median(counts: Mapping[int, int]) -> float:
    """The value in the middle, by the buckets of the values; there is at least one."""
    half, seen = sum(counts.values()) / 2, 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= half:
            return middle_of(bucket)
    raise ValueError("found no values, expected at least one")


@dataclass(frozen=True, slots=True)
class Drift:
    """``index``: of this week against the one before. ``bound``: what counts as a shift. Medians of both weeks."""

    index: float
    bound: float
    before: int
    now: int
    median_before: float
    median_now: float

    @property
    def shifted(self) -> bool:
        """Whether it is another distribution."""
        return self.index > self.bound


def drift(before: Mapping[int, int], now: Mapping[int, int]) -> Drift | None:
    """Of counts by bucket; None if one of the weeks has too few values."""
    many, few = sum(before.values()), sum(now.values())
    if min(many, few) < VALUES_MIN:
        return None
    groups = groups_of(before, now)
    bound = max(SHIFT, by_chance(many, few, len(groups[0])))
    return Drift(stability_index(*groups), bound, many, few, median(before), median(now))
