"""Candidate thresholds: a rule's figure at each record, and the alerts that each threshold would have emitted.

The number of alerts is not the number of records beyond the threshold: a rule that emits on crossing is silent until
the figure has been back, or the window is empty. This module computes the alerts of any threshold fast, to select those
that the engine then judges; the reported results are those of the engine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crossline.basics.values import F64, I64

Bools = npt.NDArray[np.bool_]
BEYOND: Mapping[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
LINES_MAX = 2_000  # thresholds that are computed


@dataclass(frozen=True, slots=True)
class JudgedValues:
    """A rule's judged records, by key, and within a key in the order of arrival.

    ``values``: the value compared with the threshold (NaN: none). ``beyond``, ``within``: whether the predicate holds
    if the value is beyond the threshold, and if it is not. ``clock_ms``: the rule's clock. ``frauds``: the numbers of
    the frauds in the evidence of an alert at the record.
    """

    keys: I64
    clock_ms: I64
    values: F64
    beyond: Bools
    within: Bools
    frauds: Sequence[tuple[int, ...]] = ()

    def sorted(self) -> JudgedValues:
        """The same, sorted by key; the order within a key stays."""
        order = np.argsort(self.keys, kind="stable")
        return JudgedValues(
            self.keys[order],
            self.clock_ms[order],
            self.values[order],
            self.beyond[order],
            self.within[order],
            [self.frauds[place] for place in order.tolist()] if self.frauds else (),
        )


@dataclass(frozen=True, slots=True)
class EmissionPolicy:
    """When a hit is emitted: see ``Emission``. ``rearm_ms``: the time after which a judged record is forgotten."""

    every: bool
    cooldown_ms: int
    rearm_ms: int


def candidate_thresholds(values: F64, sign: str) -> list[float]:
    """All thresholds with distinct results, the strictest first: any other threshold gives the same as one of them.

    They are the values that occur, and one outside of them, which no value or every value is beyond.
    """
    found: list[float] = np.unique(values[np.isfinite(values)]).tolist()
    lines = found[::-1] if sign in {">", ">="} else found
    if not lines:
        return []
    step = 1 if sign in {">", ">="} else -1
    return [lines[0] + step, *lines] if "=" in sign else [*lines, lines[-1] - step]


def thinned(lines: Sequence[float]) -> list[float]:
    """At most ``LINES_MAX`` of ``lines``, denser for thresholds with few records beyond."""
    if len(lines) <= LINES_MAX:
        return list(lines)
    places = np.geomspace(LINES_MAX // 2, len(lines) - 1, LINES_MAX // 2).astype(int).tolist()
    return [lines[place] for place in sorted({*range(LINES_MAX // 2), *places})]


def emissions(judged_values: JudgedValues, sign: str, line: float, emission: EmissionPolicy) -> I64:
    """The positions in the sorted ``judged_values`` at which a rule with this threshold emits."""
    past = BEYOND[sign](judged_values.values, line)
    satisfied = np.where(past, judged_values.beyond, judged_values.within)
    emits = satisfied.copy()
    if not emission.every and len(emits):
        same = judged_values.keys[1:] == judged_values.keys[:-1]
        kept = judged_values.clock_ms[:-1] > judged_values.clock_ms[1:] - emission.rearm_ms
        emits[1:] &= ~(satisfied[:-1] & same & kept)
    places: I64 = np.flatnonzero(emits)
    return _apart(judged_values, places, emission.cooldown_ms) if emission.cooldown_ms else places


def _apart(judged_values: JudgedValues, places: I64, cooldown_ms: int) -> I64:
    """``places`` without those within the cooldown of an earlier one of their key."""
    kept: list[int] = []
    key, last_ms = None, 0
    for place in places.tolist():
        mine, now_ms = judged_values.keys[place], int(judged_values.clock_ms[place])
        if mine == key and now_ms < last_ms + cooldown_ms:
            continue
        key, last_ms = mine, now_ms
        kept.append(place)
    return np.array(kept, np.int64)
