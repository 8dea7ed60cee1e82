"""Aggregates of a window's values, each from its definition. None is 'undefined', which satisfies nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any


def total(values: Sequence[Any]) -> int | float:
    """Integers exactly; floats as their real sum, rounded once."""
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)


# Each with the least number of records from which it is defined.
AGGREGATES: dict[str, tuple[int, Callable[[Sequence[Any]], int | float]]] = {
    "count": (0, len),
    "distinct_count": (0, lambda values: len(set(values))),
    "sum": (0, total),
    "avg": (1, lambda values: total(values) / len(values)),
    "min": (1, min),
    "max": (1, max),
    "first": (1, lambda values: values[0]),
    "last": (1, lambda values: values[-1]),
    "stddev": (2, statistics.stdev),
}


def aggregate(kind: str, values: Sequence[Any]) -> int | float | None:
    """``values`` in the order of the window: by clock, ties by ingest order."""
    least, function = AGGREGATES[kind]
    return function(values) if len(values) >= least else None
