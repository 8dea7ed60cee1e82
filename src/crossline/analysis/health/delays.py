"""Delayed labels: precision corrected for the labels of young alerts that have not arrived.

A label arrives days after its alert, and a label of fraud may take longer than one of good. So the labels of young
alerts are a biased sample. The observation is right-truncated: of an alert of age a, only delays below a are seen. The
distribution F of the delay is estimated by its reverse-time hazard,

    g(x) = labels with delay x / labels with a delay of at most x, both of alerts that are older than x
    F(x) = product of 1 - g(y) over all y > x

as in Lagakos, Barraj and De Gruttola, "Nonparametric analysis of truncated survival data, with application to AIDS",
Biometrika 75 (1988) 515-523, and Kalbfleisch and Lawless, "Inference based on retrospective ascertainment", JASA 84
(1989) 360-372. In whole days it is the chain-ladder of insurers. Each label counts 1 / F(a - 1) times, for the labels
of its verdict that are to come on alerts of its age.

Limits: F covers delays up to the longest one observed. Delays are assumed not to change over time. Alerts that never
get a label are left out: precision is that of labelled alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from crossline.analysis.health.shares import Precision

COME_MIN = 0.1  # alerts with a smaller share of labels so far are not counted


@dataclass(frozen=True, slots=True)
class Cell:
    """``count`` labels of one verdict. ``age``: whole days since the day of their alerts; ``delay``: until labelled."""

    fraud: bool
    age: int
    delay: int
    count: int

    @property
    def whole(self) -> bool:
        """Whether the day of the label is over: those of today are a part of a day, and are not counted."""
        return 0 <= self.delay < self.age


def arrival_shares(cells: Iterable[Cell]) -> list[float]:
    """The share of labels that arrive within each delay in days: F(0), F(1) and so on up to the longest delay.

    Args:
        cells: Labels of one verdict.

    >>> arrival_shares([Cell(True, 2, 0, 5), Cell(True, 2, 1, 5), Cell(True, 1, 0, 6)])
    [0.5, 1.0]
    """
    kept = [each for each in cells if each.whole and each.count > 0]
    if not kept:
        return []
    longest = max(each.delay for each in kept)
    labels = np.zeros((longest + 1, longest + 2))  # by delay and age; all who are old enough are alike
    for each in kept:
        labels[each.delay, min(each.age, longest + 1)] += each.count
    within = labels.cumsum(axis=0)
    found = [1.0]
    for x in range(longest, 0, -1):
        all_, at = float(within[x, x + 1 :].sum()), float(labels[x, x + 1 :].sum())
        found.append(found[-1] * (1 - at / all_) if all_ else found[-1])
    return found[::-1]


@dataclass(frozen=True, slots=True)
class CorrectedPrecision:
    """The corrected precision. ``precision``: with effective counts, so that its interval reflects the weights.

    ``expected``: labels that have not arrived. ``young_days``: alerts of so many last days were left out, because too
    few of their labels have arrived.
    """

    precision: Precision
    expected: float
    young_days: int


def correct_precision(mine: Iterable[Cell], shares: Mapping[bool, list[float]]) -> CorrectedPrecision:
    """The precision of a rule, corrected for labels that have not arrived.

    The interval takes Kish's effective number of labels, (sum of weights)² / sum of squares (L. Kish, Survey Sampling,
    1965), as the number of a Wilson interval. That F itself is estimated makes it wider than that; this is left out.

    Args:
        mine: Labels of the rule, of both verdicts.
        shares: By verdict, the result of ``arrival_shares`` for the labels of all rules.

    >>> frauds = [Cell(True, 2, 0, 5), Cell(True, 2, 1, 5), Cell(True, 1, 0, 6)]
    >>> good = [Cell(False, 2, 0, 10), Cell(False, 1, 0, 6)]
    >>> arrived = {True: arrival_shares(frauds), False: arrival_shares(good)}
    >>> found = correct_precision(frauds + good, arrived)
    >>> found.expected  # of the 6 frauds of yesterday half have come
    6.0
    >>> round(found.precision.true / found.precision.labels, 4)  # (10 + 12) / (10 + 12 + 10 + 6)
    0.5789
    """
    cells = [each for each in mine if each.whole]
    young = _young(shares)
    sums = {True: 0.0, False: 0.0}
    squares = count = 0.0
    for each in cells:
        if each.age <= young:
            continue
        weight = 1 / _share(shares.get(each.fraud, []), each.age - 1)
        sums[each.fraud] += weight * each.count
        squares += weight * weight * each.count
        count += each.count
    whole = sums[True] + sums[False]
    if not whole:
        return CorrectedPrecision(Precision(), 0.0, young)
    effective = whole * whole / squares
    return CorrectedPrecision(Precision(effective * sums[True] / whole, effective), whole - count, young)


def _share(shares: list[float], delay: int) -> float:
    return shares[delay] if delay < len(shares) else 1.0


def _young(shares: Mapping[bool, list[float]]) -> int:
    """The highest age at which too few labels of some verdict have arrived; 0: none."""
    return max((sum(each < COME_MIN for each in several) for several in shares.values()), default=0)
