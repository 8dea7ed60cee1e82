"""Which records are reported as duplicates, and which as late: by the rules in force when each comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from .key_spaces import in_powers
from .rule_versions import Rule

Fate = Literal["duplicate", "late", ""]


class Copies:
    """What came so far. ``default_ms``: the pipeline's allowed lateness.

    A record whose id came before is a duplicate if it is not too late for every rule on event time in force when it
    comes; or if one is in force on the ingest clock, and it came within the pipeline's allowed lateness, rounded up to
    a power of two seconds, of one that was no such copy itself. It is late if it is too late for any rule in force, and
    no duplicate. Without rules the pipeline's bound is that of one.
    """

    def __init__(self, snapshot: Sequence[Rule], default_ms: int) -> None:
        self._snapshot, self._default_ms = snapshot, default_ms
        edges = {-math.inf, *(edge for rule in snapshot for edge in (rule.from_ms, rule.until_ms))} - {math.inf}
        bounds = [ms for edge in edges for ms in self._allowed(edge) if ms != math.inf]
        self._widest_ms = max(bounds, default=-1)
        self._on_ingest_alone = bool(snapshot) and not any(rule.event_time for rule in snapshot)
        self._known: set[str] = set()
        self._came: dict[str, int] = {}

    def fate(self, record_id: str, lateness_ms: int, ingest_ms: int) -> Fate:
        """What the next record is reported as."""
        allowed = self._allowed(ingest_ms)
        again = ingest_ms - self._came.get(record_id, -math.inf) <= in_powers(self._default_ms)
        before = again if self._on_ingest_alone else record_id in self._known
        known = before and lateness_ms <= max((ms for ms in allowed if ms != math.inf), default=-math.inf)
        if lateness_ms <= self._widest_ms:
            self._known.add(record_id)
        if not again:
            self._came[record_id] = ingest_ms
        if known or (again and math.inf in allowed):
            return "duplicate"
        return "late" if lateness_ms > min(allowed) else ""

    def _allowed(self, ingest_ms: float) -> list[float]:
        """What the rules allow that are in force then: on the ingest clock anything."""
        found = [rule.allowed_lateness_ms for rule in self._snapshot if rule.from_ms <= ingest_ms < rule.until_ms]
        return found or [self._default_ms]


def allowed_on_event_time(snapshot: Sequence[Rule], ingest_ms: float, default_ms: int) -> list[float]:
    """What the rules on event time allow that are in force then; the pipeline's bound where there are none."""
    found = [r.allowed_lateness_ms for r in snapshot if r.event_time and r.from_ms <= ingest_ms < r.until_ms]
    return found or [default_ms]
