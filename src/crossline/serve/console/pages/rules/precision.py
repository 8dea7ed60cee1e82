"""Precision from labels: a share with the interval that so few or so many labels bear."""

from __future__ import annotations

import math
from dataclasses import dataclass

LABELS_MIN = 30
_Z = 1.959964


def wilson(true: int, all_: int) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's score.

    >>> low, high = wilson(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    >>> round(low, 4), round(high, 4)
    (0.2553, 0.3662)
    """
    share, z2 = true / all_, _Z * _Z
    middle = (share + z2 / (2 * all_)) / (1 + z2 / all_)
    half = _Z * math.sqrt(share * (1 - share) / all_ + z2 / (4 * all_ * all_)) / (1 + z2 / all_)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True)
class Precision:
    """Of labelled alerts, how many were on frauds."""

    true: int = 0
    labels: int = 0

    def said(self) -> str:
        """With its interval; in words where there are too few labels.

        >>> Precision(81, 263).said(), Precision(3, 4).said()
        ('0.31, 0.26 to 0.37', 'too few labels')
        """
        if self.labels < LABELS_MIN:
            return "too few labels"
        low, high = wilson(self.true, self.labels)
        return f"{self.true / self.labels:.2f}, {low:.2f} to {high:.2f}"
