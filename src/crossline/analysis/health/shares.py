"""Shares of counts, such as precision from labels, with the intervals that so few or so many of them bear."""

from __future__ import annotations

import math
from dataclasses import dataclass

LABELS_MIN = 30
Z = 1.959964  # 95 % of a normal distribution


def wilson(true: float, all_: float) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's score, without correction for continuity.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927) 209-212.

    Args:
        true: How many were so; of weighted counts an effective number.
        all_: Of how many, above 0.

    >>> low, high = wilson(81, 263)  # Newcombe 1998, table I: 0.2553 to 0.3662
    >>> round(low, 4), round(high, 4)
    (0.2553, 0.3662)
    """
    share, z2 = true / all_, Z * Z
    middle = (share + z2 / (2 * all_)) / (1 + z2 / all_)
    half = Z * math.sqrt(share * (1 - share) / all_ + z2 / (4 * all_ * all_)) / (1 + z2 / all_)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True)
class Precision:
    """Of ``labels`` labelled alerts, ``true`` were on frauds. Both may be weighted counts."""

    true: float = 0
    labels: float = 0

    @property
    def enough(self) -> bool:
        """Whether there are labels enough for a share."""
        return self.labels >= LABELS_MIN

    @property
    def value(self) -> float | None:
        """The share; None if there are too few labels."""
        return self.true / self.labels if self.enough else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of 95 %; None if there are too few labels."""
        return wilson(self.true, self.labels) if self.enough else None

    def text(self) -> str:
        """The precision and its interval as text, or a note that there are too few labels.

        >>> Precision(81, 263).text(), Precision(3, 4).text()
        ('0.31, 0.26 to 0.37', 'too few labels')
        """
        if not self.enough:
            return "too few labels"
        low, high = wilson(self.true, self.labels)
        return f"{self.true / self.labels:.2f}, {low:.2f} to {high:.2f}"


def difference(one: Precision, other: Precision) -> tuple[float, float]:
    """The 95 % interval of the first share less the second: Newcombe's hybrid of two score intervals (his method 10).

    R. G. Newcombe, "Interval estimation for the difference between independent proportions: comparison of eleven
    methods", Statistics in Medicine 17 (1998) 873-890.

    >>> low, high = difference(Precision(56, 70), Precision(48, 80))  # its table II: 0.0524 to 0.3339
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    mine, its = one.true / one.labels, other.true / other.labels
    (low1, high1), (low2, high2) = wilson(one.true, one.labels), wilson(other.true, other.labels)
    return (
        mine - its - math.hypot(mine - low1, high2 - its),
        mine - its + math.hypot(high1 - mine, its - low2),
    )
