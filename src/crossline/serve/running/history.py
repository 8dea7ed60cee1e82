"""The minutes of a run, of today and of the day before: sums, shares and peaks of spans, and one value an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOUR, DAY = 60, 24 * 60


@dataclass(frozen=True)
class History:
    """``figures``: by name and epoch minute. ``end``: the minute after the last one that may be there."""

    figures: Mapping[str, Mapping[int, float]]
    end: int

    @property
    def last(self) -> int | None:
        """The last minute in which a batch ended, or lag was looked at; None: none of these two days."""
        names = ("batches", "lag_ms")
        return max((max(self.figures[name]) for name in names if self.figures.get(name)), default=None)

    def total(self, name: str, span: int, before: int = 0) -> float | None:
        """The sum over ``span`` minutes that end ``before`` minutes ago; None where none of them is known."""
        found = self._within(name, span, before)
        return sum(found) if found else None

    def peak(self, name: str, span: int, before: int = 0) -> float | None:
        """The greatest of them."""
        return max(self._within(name, span, before), default=None)

    def ratio(self, part: str, whole: str, span: int, before: int = 0) -> float | None:
        """The one sum in the other; None where there is nothing that it could be of."""
        divisor = self.total(whole, span, before)
        return (self.total(part, span, before) or 0.0) / divisor if divisor else None

    def hours(self, part: str, whole: str = "") -> tuple[float | None, ...]:
        """Of each of the last 24 hours its peak, or with ``whole`` its ratio; the latest last."""
        befores = [HOUR * number for number in range(23, -1, -1)]
        if whole:
            return tuple(self.ratio(part, whole, HOUR, before) for before in befores)
        return tuple(self.peak(part, HOUR, before) for before in befores)

    def _within(self, name: str, span: int, before: int) -> list[float]:
        values = self.figures.get(name, {})
        first = self.end - before - span
        return [values[minute] for minute in range(first, first + span) if minute in values]
