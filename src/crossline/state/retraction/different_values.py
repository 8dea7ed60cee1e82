"""How many different values a column has at most: a set of those that came, read on as rows come."""

from __future__ import annotations

import numpy as np

from crossline.state.batch import Bools
from crossline.state.memory.hashing import xxh64_many
from crossline.state.retraction.columns import Column, Texts

DIFFERENT_MAX = 50_000  # values that are counted


class DifferentValues:
    """Of some columns the different values, or their hashes; those of rows that went may still count."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[set[int], int]] = {}  # and of how many rows they are

    def at_most(self, number: int, column: Column | Texts, rows: int) -> float:
        """How many there are at most in column ``number``, which has ``rows`` rows; infinite for very many."""
        known, counted = self._known.setdefault(number, (set(), 0))
        if counted < rows and len(known) <= DIFFERENT_MAX:
            if isinstance(column, Texts):
                new = xxh64_many(*column.take(np.arange(counted, rows)))
            else:
                new = column.rows[counted:]
            known.update(np.unique(new).tolist())
            self._known[number] = known, rows
        return len(known) if len(known) <= DIFFERENT_MAX else np.inf

    def keep(self, kept: Bools) -> None:
        """Only the rows that are ``kept`` are left; a set of more values than these begins again."""
        least = min(DIFFERENT_MAX, int(kept.sum()))
        pairs = self._known.items()
        self._known = {
            column: (known, int(kept[:counted].sum())) for column, (known, counted) in pairs if len(known) <= least
        }
