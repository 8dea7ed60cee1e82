"""Between which bounds the figure of a row stays while further records come into its window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossline.basics.values import F64, I64
from crossline.state.batch import Bools, FeatureColumn

GROWING = frozenset({"count", "distinct_count", "max", "min", "sum", "avg"})
EXACT = 2.0**53  # up to here floats have every integer
_SLACK = 1e-9  # of what is computed here in floats, and by the kernel exactly


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of n rows the least and the greatest that a number may be: ``low`` and ``high``, infinite where that is unknown.

    ``there``: bool[n], whether it is never missing; ``absent``: whether it always is.
    """

    low: F64
    high: F64
    there: Bools
    absent: Bools

    @staticmethod
    def unknown(rows: int) -> Bounds:
        """Nothing is known."""
        return Bounds.of(np.full(rows, -np.inf), np.full(rows, np.inf), np.zeros(rows, np.bool_))

    @staticmethod
    def of(low: F64, high: F64, there: Bools) -> Bounds:
        """Those of a number that may be missing where it is not ``there``, and be anything where no bound is finite."""
        known = np.isfinite(low) & np.isfinite(high) & there
        low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
        return Bounds(low, high, known, np.zeros(len(low), np.bool_))

    def wider(self, by: F64) -> Bounds:
        """The same, further apart by ``by`` on either side where they are known."""
        low, high = np.where(self.there, self.low - by, -np.inf), np.where(self.there, self.high + by, np.inf)
        return Bounds(low, high, self.there, self.absent)


def figure_bounds(aggregate: str, figure: FeatureColumn, more: I64, values: F64) -> Bounds:
    """The bounds of a figure whose windows gain records.

    Args:
        aggregate: its name.
        figure: its values at n rows, before any record comes.
        more: int64[n], how many records come at most.
        values: those of the records that may come, in any number; not used by counts.
    """
    rows = len(figure.values)
    was = figure.values.astype(np.float64)
    if aggregate not in GROWING or figure.up is not None:
        return Bounds.unknown(rows)
    exact = np.abs(was) < EXACT
    if aggregate in ("count", "distinct_count"):
        return Bounds.of(was, was + more, exact)
    there = figure.defined & exact
    least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    more = more if len(values) else np.zeros_like(more)
    size = max(abs(least), abs(most))
    there &= size * (more + 1) < EXACT
    match aggregate:
        case "max":
            return Bounds.of(was, np.where(more > 0, np.maximum(was, most), was), there)
        case "min":
            return Bounds.of(np.where(more > 0, np.minimum(was, least), was), was, there)
        case "sum":
            low, high = was + more * min(0.0, least), was + more * max(0.0, most)
        case _:  # the more values come, all on one side of a mean, the further they move it
            held, after = was * figure.counts, np.maximum(figure.counts + more, 1)
            low = np.minimum(was, (held + more * least) / after)
            high = np.maximum(was, (held + more * most) / after)
    return Bounds.of(low, high, there).wider(_SLACK * (np.abs(was) + (more + 1) * size))
