"""Pending deadlines in the order of their clocks, with the data of a hit that comes long after its batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import I32, I64

NEVER_EMITTED = -(2**62)
TIER_MAX = 1 << 15  # records; putting as many in order together takes some 2 ms


@dataclass(slots=True)
class Tier:
    """Some of them, ascending by clock, ties by ingest order: ``record`` is the number that a record has in its store.

    ``emitted_to_ms``: the clock up to which due records were emitted. ``origins``: see ``KeyedBatch``; None: none.
    """

    clock_ms: I64
    ingest_ms: I64
    lateness_ms: I64
    record: I64
    origins: pa.Table | None
    emitted_to_ms: int = NEVER_EMITTED

    def __len__(self) -> int:
        return len(self.clock_ms)

    def take(self, rows: Any) -> Tier:
        """The ``rows`` of it."""
        clock, ingest, lateness, record = (getattr(self, name)[rows] for name in _TIMES)
        origins = None if self.origins is None else self.origins.take(pa.array(rows)).combine_chunks()
        return Tier(clock, ingest, lateness, record, origins, self.emitted_to_ms)


def _in_order(tier: Tier) -> Tier:
    """What comes in order stays as it is."""
    clock, record = tier.clock_ms, tier.record
    before, same = clock[:-1] < clock[1:], clock[:-1] == clock[1:]
    return tier if (before | (same & (record[:-1] < record[1:]))).all() else tier.take(np.lexsort((record, clock)))


def _merged(first: Tier, second: Tier) -> Tier:
    clock, ingest, lateness, record = (
        np.concatenate([getattr(each, name) for each in (first, second)]) for name in _TIMES
    )
    origins = None
    if first.origins is not None and second.origins is not None:
        origins = pa.concat_tables([first.origins, second.origins]).unify_dictionaries().combine_chunks()
    return _in_order(Tier(clock, ingest, lateness, record, origins, first.emitted_to_ms))


_TIMES = ("clock_ms", "ingest_ms", "lateness_ms", "record")


class Deadlines:
    """All records that wait in one key space. Each ``due`` returns those that became due since the call before.

    Sorted runs, the last of them each at least twice as long as the next: one that comes is moved some times, not at
    each batch, and no more once it has its full length.
    """

    def __init__(self) -> None:
        self._tiers: list[Tier] = []

    def __len__(self) -> int:
        return sum(map(len, self._tiers))

    def add(self, tier: Tier) -> None:
        """Add a tier, in any order, of which nothing was emitted yet."""
        if len(tier):
            self._tiers.append(_in_order(tier))

    def due(self, clock_ms: int, after_ms: I64) -> Iterator[tuple[int, Tier, slice]]:
        """Number in ``after_ms``, tier and rows, of what the clock passes that much after their own clocks.

        A deadline is due if ``clock_ms`` passes it and the tier's last emission did not.
        """
        first, last, emitted_to = (
            np.array([number(tier) for tier in self._tiers], np.int64)[:, None] for number in (_first, _last, _emitted)
        )
        some = ((first < clock_ms - after_ms) & (last >= emitted_to - after_ms)).any(axis=1)
        for tier in [self._tiers[place] for place in np.flatnonzero(some).tolist()]:
            starts = np.searchsorted(tier.clock_ms, tier.emitted_to_ms - after_ms)
            ends = np.searchsorted(tier.clock_ms, clock_ms - after_ms)
            for number in np.flatnonzero(starts < ends).tolist():
                yield number, tier, slice(int(starts[number]), int(ends[number]))

    def mark_emitted(self, clock_ms: int, longest_ms: int) -> None:
        """Note that all due at ``clock_ms`` was emitted; drop records whose clock is more than ``longest_ms`` behind.

        A run loses them where they are half of it. Only then are all runs looked at for what belongs together.
        """
        for tier in self._tiers:
            tier.emitted_to_ms = max(tier.emitted_to_ms, clock_ms)
        left = [_cut(tier, tier.emitted_to_ms - longest_ms) for tier in self._tiers]
        same = all(map(is_, left, self._tiers))
        tiers = self._tiers = left[:-1] if same else []
        for tier in left[-1:] if same else filter(len, left):
            tiers.append(tier)
            while len(tiers) > 1 and _belong_together(*tiers[-2:]):
                second = tiers.pop()
                tiers[-1] = _merged(tiers[-1], second)

    def renumber(self, number: I32, first: int) -> None:
        """Renumber records by ``number``, which begins with record ``first``; those that are gone wait no more."""
        tiers, self._tiers = self._tiers, []
        for tier in tiers:
            there = np.flatnonzero(tier.record >= first)
            there = there[number[tier.record[there] - first] >= 0]
            kept = tier if len(there) == len(tier) else tier.take(there)
            if len(kept):
                kept.record = number[kept.record - first].astype(np.int64)
                self._tiers.append(kept)

    def bytes_held(self) -> int:
        """Bytes of them."""
        return sum(32 * len(tier) + (tier.origins.nbytes if tier.origins is not None else 0) for tier in self._tiers)


def _cut(tier: Tier, before_ms: int) -> Tier:
    """What of a run has a clock of ``before_ms`` or later, or all of it where that is most of it."""
    if tier.clock_ms[len(tier) // 2] >= before_ms:
        return tier
    return tier.take(np.arange(np.searchsorted(tier.clock_ms, before_ms), len(tier)))


def _first(tier: Tier) -> Any:
    return tier.clock_ms[0]


def _last(tier: Tier) -> Any:
    return tier.clock_ms[-1]


def _emitted(tier: Tier) -> int:
    return tier.emitted_to_ms


def _belong_together(first: Tier, second: Tier) -> bool:
    return (
        first.emitted_to_ms == second.emitted_to_ms
        and len(first) <= 2 * len(second)
        and len(first) + len(second) <= TIER_MAX
    )
