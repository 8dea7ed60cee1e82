"""How late a record may be for the rules that are in force when it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.basics.values import I64
from crossline.programs.program import Feed
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleVersion

Marks = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class LatenessInForce:
    """The bounds of lateness of the rules in force, by ingest time: the i-th holds from ``from_ms[i]`` on.

    ``late_after_ms``: the least allowed lateness of a rule; none where all rules use the ingest clock. ``allowed_ms``:
    the greatest one of a rule on event time; without such rules the pipeline's own. ``on_ingest``: whether a rule uses
    the ingest clock, on which nothing is late. ``widest_ms``: the greatest allowed lateness at any time; None where no
    rule uses event time.
    """

    from_ms: tuple[int, ...]
    late_after_ms: tuple[int, ...]
    allowed_ms: tuple[int, ...]
    on_ingest: tuple[bool, ...]
    widest_ms: int | None

    def at(self, ingest_ms: I64) -> tuple[I64 | int, I64 | int]:
        """``late_after_ms`` and ``allowed_ms`` for records of these ingest times."""
        if len(self.from_ms) == 1:
            return self.late_after_ms[0], self.allowed_ms[0]
        place = self._place(ingest_ms)
        return np.array(self.late_after_ms)[place], np.array(self.allowed_ms)[place]

    def duplicates(self, ingest_ms: I64, lateness_ms: I64, known: Marks, copies: Marks | None) -> Marks:
        """The records to report as duplicates.

        ``known``: duplicates for the accounting store. It may have forgotten the first record where the second is later
        than any rule allows. ``copies``: duplicates on the ingest clock; None where no rule is on it.
        """
        place = self._place(ingest_ms)
        on_event = np.array(self.late_after_ms)[place] != FOREVER_MS
        found: Marks = known & on_event & (lateness_ms <= np.array(self.allowed_ms)[place])
        if copies is not None:
            found |= copies & np.array(self.on_ingest)[place]
        return found

    def _place(self, ingest_ms: I64) -> I64:
        place: I64 = np.searchsorted(np.array(self.from_ms), ingest_ms, side="right") - 1
        return place


def lateness_of(judged: Sequence[tuple[RuleVersion, Feed]], defaults: Defaults) -> LatenessInForce:
    """Of the versions of one stream; the pipeline's own bound where none is in force."""
    bounds = [(v.effective_from_ms, v.effective_until_ms, feed.allowed_lateness_ms) for v, feed in judged]
    changes = {edge for start, end, _ in bounds for edge in (start, end)}
    edges = sorted({BEGINNING_MS, *changes} - {FOREVER_MS})
    spans: list[tuple[int, int, int, bool]] = []
    for edge in edges:
        in_force = [ms for start, end, ms in bounds if start <= edge < end]
        allowed = [ms for ms in in_force if ms is not None]
        on_ingest = len(allowed) < len(in_force)
        own_ms = defaults.allowed_lateness_ms
        late_after_ms = min(allowed, default=FOREVER_MS if on_ingest else own_ms)
        found = (late_after_ms, max(allowed, default=own_ms), on_ingest)
        if not spans or spans[-1][1:] != found:
            spans.append((edge, *found))
    starts, late_after, widest, clocks = zip(*spans, strict=True)
    timely = any(ms is not None for _, _, ms in bounds) or not bounds
    spans_ms = [ms for late_ms, ms in zip(late_after, widest, strict=True) if late_ms != FOREVER_MS]
    return LatenessInForce(
        from_ms=starts,
        late_after_ms=late_after,
        allowed_ms=widest,
        on_ingest=clocks,
        widest_ms=max(spans_ms) if timely else None,
    )
