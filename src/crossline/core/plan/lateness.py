"""How late a record may be for the rules that are in force when it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossline.core.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.core.basics.values import I64
from crossline.core.figures.program import Feed
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleVersion


@dataclass(frozen=True, slots=True)
class LatenessInForce:
    """What the rules in force at an ingest time leave unjudged, and what they take: from ``from_ms[i]`` on the i-th.

    ``late_after_ms``: lateness past which some rule leaves a record unjudged. ``allowed_ms``: past which every rule
    does. ``widest_ms``: the greatest of these there is.
    """

    from_ms: tuple[int, ...]
    late_after_ms: tuple[int, ...]
    allowed_ms: tuple[int, ...]

    @property
    def widest_ms(self) -> int:
        """The greatest lateness that any rule takes at any time."""
        return max(self.allowed_ms)

    def at(self, ingest_ms: I64) -> tuple[I64 | int, I64 | int]:
        """``late_after_ms`` and ``allowed_ms`` for records of these ingest times."""
        if len(self.from_ms) == 1:
            return self.late_after_ms[0], self.allowed_ms[0]
        place = np.searchsorted(np.array(self.from_ms), ingest_ms, side="right") - 1
        return np.array(self.late_after_ms)[place], np.array(self.allowed_ms)[place]


def lateness_of(judged: Sequence[tuple[RuleVersion, Feed]], defaults: Defaults) -> LatenessInForce:
    """Of the versions of one stream that run on event time; the pipeline's own bound where none is in force."""
    bounds = [(v.effective_from_ms, v.effective_until_ms, feed.allowed_lateness_ms) for v, feed in judged]
    changes = {edge for start, end, ms in bounds if ms is not None for edge in (start, end)}
    edges = sorted({BEGINNING_MS, *changes} - {FOREVER_MS})
    spans: list[tuple[int, int, int]] = []
    for edge in edges:
        allowed = [ms for start, end, ms in bounds if ms is not None and start <= edge < end]
        allowed = allowed or [defaults.allowed_lateness_ms]
        if not spans or spans[-1][1:] != (min(allowed), max(allowed)):
            spans.append((edge, min(allowed), max(allowed)))
    starts, late_after, widest = zip(*spans, strict=True)
    return LatenessInForce(starts, late_after, widest)
