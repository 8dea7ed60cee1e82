"""The minutes of a run, of today and of the day before: sums, shares and peaks of spans, and one value an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOUR, DAY = 60, 24 * 60
BEFORE = tuple(HOUR * number for number in range(23, -1, -1))  # by how many minutes the last 24 hours ended earlier


@dataclass(frozen=True)
class RunHistory:
    """``figures``: by name and epoch minute. ``end``: the minute after the last one that may be there."""

    figures: Mapping[str, Mapping[int, float]]
    end: int

    @property
    def last(self) -> int | None:
        """The last minute of which anything is known; None: none of these two days is."""
        return max((max(minutes) for minutes in self.figures.values() if minutes), default=None)

    def total(self, name: str, span: int, before: int = 0) -> float | None:
        """The sum over ``span`` minutes that end ``before`` minutes ago; None where none of them is known."""
        found = self._within(name, span, before)
        return sum(found) if found else None

    def per_s(self, name: str, span: int, before: int = 0) -> float | None:
        """Of the minutes that are known of them, the sum a second."""
        found = self._within(name, span, before)
        return sum(found) / (60 * len(found)) if found else None

    def peak(self, name: str, span: int, before: int = 0) -> float | None:
        """The greatest of them."""
        return max(self._within(name, span, before), default=None)

    def ratio(self, part: str, whole: str, span: int, before: int = 0) -> float | None:
        """The one sum in the other; None where there is nothing that it could be of."""
        divisor = self.total(whole, span, before)
        return (self.total(part, span, before) or 0.0) / divisor if divisor else None

    def hours(self, part: str, whole: str = "") -> tuple[float | None, ...]:
        """Of each of the last 24 hours its peak, or with ``whole`` its ratio; the latest last."""
        if whole:
            return tuple(self.ratio(part, whole, HOUR, before) for before in BEFORE)
        return tuple(self.peak(part, HOUR, before) for before in BEFORE)

    def _within(self, name: str, span: int, before: int) -> list[float]:
        values = self.figures.get(name, {})
        first = self.end - before - span
        return [values[minute] for minute in range(first, first + span) if minute in values]
