"""Satisfiability of claims. It is sound and incomplete: a claim that is not found impossible may still be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from crossline.analysis.claims import Claim, Denied, Literal, Opaque, Present, Relation, Test, TooManyError, cases
from crossline.basics.conditions.evaluation import holds
from crossline.basics.conditions.tree import Leaf, family

_POINTS_MAX = 1_000
_EVERY_RELATION = frozenset("<=>")
_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "!=": "=="}


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The range of a value before any claim: its kind, whether it may be missing, its bounds (inclusive)."""

    kind: str
    missing: bool = True
    low: float = -math.inf
    high: float = math.inf

    @property
    def whole(self) -> bool:
        """Whether it is a whole number."""
        return self.kind in {"integer", "timestamp"}


Known = Mapping[str, ValueRange]


def impossible(claim: Claim, known: Known) -> bool:
    """Whether ``claim`` holds for no record; ``known``: the ranges of the values in claims."""
    try:
        return all(_contradicts(case, known) for case in cases(claim))
    except TooManyError:
        return False


def certain(claim: Claim, known: Known) -> bool:
    """Whether ``claim`` holds for every record."""
    return impossible(Denied(claim), known)


def value_range(claim: Claim, name: str, known: Known) -> ValueRange:
    """The range of the value if ``claim`` holds."""
    start = known[name]
    try:
        found = [
            each for case in cases(claim) if not _contradicts(case, known) for each in [_bounded(case, name, start)]
        ]
    except TooManyError:
        return start
    if not found:
        return start
    low, high = min(each.low for each in found), max(each.high for each in found)
    return replace(start, low=low, high=high, missing=any(each.missing for each in found))


def _bounded(case: Iterable[Literal], name: str, start: ValueRange) -> ValueRange:
    tests = [(each, held) for each, held in case if isinstance(each, Test) and each.name == name]
    asked = any(held for _, held in tests) or (Present(name), True) in set(case)
    start = replace(start, missing=start.missing and not asked)
    if start.kind not in {"integer", "timestamp", "number"} or start.missing:
        return start  # a value that may be missing passes no negated test
    interval = _Interval.of(start)
    for test, held in tests:
        interval.take(test, held=held)
    points = [point for point in _points(tests, start) or () if _can_be(point, start) and _fits(point, tests)]
    if points:
        return replace(start, low=min(points), high=max(points))
    return replace(start, low=interval.low, high=interval.high)


def _contradicts(case: frozenset[Literal], known: Known) -> bool:
    """Whether the literals cannot hold together."""
    there: set[str] = set()
    absent: set[str] = set()
    tests: dict[str, list[tuple[Test, bool]]] = {}
    pairs: dict[tuple[str, str], frozenset[str]] = {}
    for atom, held in case:
        if (atom, not held) in case:
            return True
        match atom:
            case Opaque(_, can_hold, can_fail):
                if not (can_hold if held else can_fail):
                    return True
            case Present(name):
                (there if held else absent).add(name)
            case Test(name):
                tests.setdefault(name, []).append((atom, held))
                if held:
                    there.add(name)
            case Relation(left, right, relations):
                if held:
                    there |= {left, right}
                elif known[left].missing or known[right].missing:
                    continue  # it fails where one is missing
                else:
                    relations = _EVERY_RELATION - relations
                pairs[left, right] = pairs.get((left, right), _EVERY_RELATION) & relations
    if there & absent or any(not known[name].missing for name in absent):
        return True
    if any(not (found & (frozenset("=") if left == right else found)) for (left, right), found in pairs.items()):
        return True
    wanted = {name for name in {*tests, *there} if name in there or not known[name].missing}
    return any(_no_value(tests.get(name, ()), known[name]) for name in wanted) or _ordered_apart(pairs, tests, known)


def _ordered_apart(
    pairs: Mapping[tuple[str, str], frozenset[str]], tests: Mapping[str, Sequence[tuple[Test, bool]]], known: Known
) -> bool:
    """Whether the bounds of two values leave none of the relations that they must have."""
    for (left, right), relations in pairs.items():
        one, other = known[left], known[right]
        if left == right or "number" not in {_family(one.kind), _family(other.kind)}:
            continue
        a, b = _Interval.of(one), _Interval.of(other)
        for interval, name in ((a, left), (b, right)):
            for test, held in tests.get(name, ()):
                interval.take(test, held=held)
        possible = {"<" if a.low < b.high else "", ">" if a.high > b.low else ""}
        possible |= {"=" if a.low <= b.high and b.low <= a.high else ""}
        if not relations & possible:
            return True
    return False


def _family(kind: str) -> str:
    return "number" if kind in {"integer", "timestamp", "number"} else kind


def _no_value(tests: Sequence[tuple[Test, bool]], values: ValueRange) -> bool:
    """Whether no present value passes all ``tests``."""
    points = _points(tests, values)
    if points is not None:
        return not any(_can_be(each, values) and _fits(each, tests) for each in points)
    if values.kind == "string":
        return _no_text(tests)
    if _family(values.kind) != "number":
        return False
    interval = _Interval.of(values)
    for test, held in tests:
        interval.take(test, held=held)
    return interval.is_empty(tests)


def _points(tests: Sequence[tuple[Test, bool]], values: ValueRange) -> list[Any] | None:
    """The only possible values; None if there are many."""
    if values.kind == "boolean":
        return [True, False]
    for test, held in tests:
        if held and test.operator == "==":
            return [test.value]
        if held and test.operator == "in":
            return list(test.value)
    return None


def _can_be(value: Any, values: ValueRange) -> bool:
    if isinstance(value, str | bool):
        return True
    return values.low <= value <= values.high and not (values.whole and value != math.floor(value))


def _fits(value: Any, tests: Sequence[tuple[Test, bool]]) -> bool:
    return all(_passes(value, test) == held for test, held in tests)


def _passes(value: Any, test: Test) -> bool:
    """Whether a value passes, by the naive twin of conditions, which defines the semantics."""
    return holds(Leaf("it", test.operator, test.value), {"it": value})  # type: ignore[arg-type]


def _no_text(tests: Sequence[tuple[Test, bool]]) -> bool:
    held = [test for test, so in tests if so]
    starts = sorted((each.value for each in held if each.operator == "starts_with"), key=len)
    ends = sorted((each.value for each in held if each.operator == "ends_with"), key=len)
    if any(not long.startswith(short) for short, long in pairwise(starts)):
        return True
    if any(not long.endswith(short) for short, long in pairwise(ends)):
        return True
    lows = [(each.value, each.operator == ">") for each in held if each.operator in {">", ">="}]
    highs = [(each.value, each.operator == "<") for each in held if each.operator in {"<", "<="}]
    lows += [(test.value, test.operator == "<=") for test, so in tests if not so and test.operator in {"<", "<="}]
    highs += [(test.value, test.operator == ">=") for test, so in tests if not so and test.operator in {">", ">="}]
    return any(
        low > high or (low == high and (low_open or high_open)) for low, low_open in lows for high, high_open in highs
    )


@dataclass(slots=True)
class _Interval:
    """Numbers from ``low`` to ``high``; ``…_open``: without that end."""

    low: float
    high: float
    whole: bool
    low_open: bool = False
    high_open: bool = False

    @classmethod
    def of(cls, values: ValueRange) -> _Interval:
        return cls(values.low, values.high, values.whole)

    def take(self, test: Test, *, held: bool) -> None:
        """Narrow the interval to values that pass the test, or fail it; tests without order change nothing."""
        if isinstance(test.value, tuple) or family(test.value) != "number":
            return
        operator = test.operator if held else _OPPOSITE.get(test.operator, "")
        if operator in {">", ">=", "=="}:
            self._above(test.value, open_=operator == ">")
        if operator in {"<", "<=", "=="}:
            self._below(test.value, open_=operator == "<")

    def _above(self, value: float, *, open_: bool) -> None:
        if self.whole:
            value, open_ = (math.floor(value) + 1 if open_ else math.ceil(value)), False
        if value > self.low or (value == self.low and open_):
            self.low, self.low_open = value, open_

    def _below(self, value: float, *, open_: bool) -> None:
        if self.whole:
            value, open_ = (math.ceil(value) - 1 if open_ else math.floor(value)), False
        if value < self.high or (value == self.high and open_):
            self.high, self.high_open = value, open_

    def is_empty(self, tests: Sequence[tuple[Test, bool]]) -> bool:
        """Whether no value is left, tests of single values included."""
        if self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)):
            return True
        if self.low == self.high:
            return not _fits(self.low, tests)
        if self.whole and self.high - self.low < _POINTS_MAX:
            return not any(_fits(each, tests) for each in range(int(self.low), int(self.high) + 1))
        return False
