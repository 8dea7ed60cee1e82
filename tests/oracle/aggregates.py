"""Aggregates of a window's values, each from its definition. None is 'undefined', which satisfies nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any


def rounded(exact: Fraction) -> float:
    """The nearest float; infinite beyond the greatest there is."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def total(values: Sequence[Any]) -> int | float:
    """Integers exactly; floats as their real sum, rounded once."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    return rounded(sum(map(Fraction, values), Fraction(0)))


def average(values: Sequence[Any]) -> float:
    """The sum over the count; where there is no finite sum, the real average, rounded once."""
    whole = total(values)
    if math.isfinite(whole):
        return whole / len(values)
    return rounded(sum(map(Fraction, values), Fraction(0)) / len(values))


def deviation(values: Sequence[Any]) -> float:
    """The sample standard deviation."""
    try:
        return statistics.stdev(values)
    except OverflowError:
        return math.inf


# Each with the least number of records from which it is defined.
AGGREGATES: dict[str, tuple[int, Callable[[Sequence[Any]], int | float]]] = {
    "count": (0, len),
    "distinct_count": (0, lambda values: len(set(values))),
    "sum": (0, total),
    "avg": (1, average),
    "min": (1, min),
    "max": (1, max),
    "first": (1, lambda values: values[0]),
    "last": (1, lambda values: values[-1]),
    "stddev": (2, deviation),
}


def aggregate(kind: str, values: Sequence[Any]) -> int | float | None:
    """``values`` in the order of the window: by clock, ties by ingest order."""
    least, function = AGGREGATES[kind]
    return function(values) if len(values) >= least else None
