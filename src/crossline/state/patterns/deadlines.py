"""Pending deadlines in the order of their clocks, with the data of a hit that comes long after its batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.values import I32, I64

NEVER_EMITTED = -(2**62)
TIER_MAX = 1 << 18  # records; putting as many in order together takes some 20 ms


@dataclass(frozen=True, slots=True)
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

    def take(self, rows: Any, origins: pa.Table | None) -> Tier:
        """The ``rows`` of it, whose origins are ``origins``."""
        return Tier(
            clock_ms=self.clock_ms[rows],
            ingest_ms=self.ingest_ms[rows],
            lateness_ms=self.lateness_ms[rows],
            record=self.record[rows],
            origins=origins,
            emitted_to_ms=self.emitted_to_ms,
        )

    def sliced(self, start: int) -> Tier:
        """From row ``start`` on, as a view."""
        return self.take(slice(start, None), None if self.origins is None else self.origins.slice(start))


def _in_order(tier: Tier) -> Tier:
    order = np.lexsort((tier.record, tier.clock_ms))
    return tier.take(order, None if tier.origins is None else tier.origins.take(pa.array(order)).combine_chunks())


def _merged(first: Tier, second: Tier) -> Tier:
    clock, ingest, lateness, record = (
        np.concatenate([getattr(each, name) for each in (first, second)]) for name in _TIMES
    )
    origins = None
    if first.origins is not None and second.origins is not None:
        origins = pa.concat_tables([first.origins, second.origins]).unify_dictionaries()
    return _in_order(Tier(clock, ingest, lateness, record, origins, first.emitted_to_ms))


_TIMES = ("clock_ms", "ingest_ms", "lateness_ms", "record")


class Deadlines:
    """All records that wait in one key space. Each ``due`` returns those that became due since the call before.

    Few sorted runs, each at least twice as long as the next: one that comes is moved some times, not at each batch.
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

        A deadline is due if ``clock_ms`` passes it and the tier's last emission did not. No tier is empty.
        """
        for tier in self._tiers:
            starts = np.searchsorted(tier.clock_ms, tier.emitted_to_ms - after_ms)
            ends = np.searchsorted(tier.clock_ms, clock_ms - after_ms)
            for number in np.flatnonzero(starts < ends).tolist():
                yield number, tier, slice(int(starts[number]), int(ends[number]))

    def mark_emitted(self, clock_ms: int, longest_ms: int) -> None:
        """Note that all due at ``clock_ms`` was emitted; drop records whose clock is ``longest_ms`` or more behind."""
        tiers = [replace(tier, emitted_to_ms=max(tier.emitted_to_ms, clock_ms)) for tier in self._tiers]
        tiers = [tier.sliced(int(np.searchsorted(tier.clock_ms, tier.emitted_to_ms - longest_ms))) for tier in tiers]
        self._tiers = []
        for tier in filter(len, tiers):
            self._tiers.append(tier)
            while len(self._tiers) > 1 and _belong_together(*self._tiers[-2:]):
                second = self._tiers.pop()
                self._tiers[-1] = _merged(self._tiers[-1], second)

    def renumber(self, number: I32) -> None:
        """Renumber records by ``number``; those that are gone (-1) wait no more."""
        tiers = [replace(tier, record=number[tier.record].astype(np.int64)) for tier in self._tiers]
        self._tiers = []
        for tier in tiers:
            there = np.flatnonzero(tier.record >= 0)
            whole = len(there) == len(tier)
            origins = None if tier.origins is None or whole else tier.origins.take(pa.array(there))
            self._tiers += [tier] if whole else [tier.take(there, origins)] if len(there) else []

    def bytes_held(self) -> int:
        """Bytes of them."""
        return sum(32 * len(tier) + (tier.origins.nbytes if tier.origins is not None else 0) for tier in self._tiers)


def _belong_together(first: Tier, second: Tier) -> bool:
    return (
        first.emitted_to_ms == second.emitted_to_ms
        and len(first) <= 2 * len(second)
        and len(first) + len(second) <= TIER_MAX
    )
