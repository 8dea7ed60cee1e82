"""Whether a formula holds at a row whatever its figures are between their bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossline.basics.formula.columns import FormulaProgram
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import Arithmetic, Compare, Join, Name, Negate, Node, Not, walk
from crossline.basics.values import F64
from crossline.state.batch import Bools
from crossline.state.retraction.figure_bounds import Bounds

_SLACK = 1e-9  # of each operation: rounding here, and where a formula is evaluated, is less


@dataclass(frozen=True, slots=True)
class Truth:
    """Of n rows whether something holds in any case (``sure``), and whether it may hold (``maybe``)."""

    sure: Bools
    maybe: Bools


def truth_of(node: Node, figures: Mapping[str, Bounds], facts: Mapping[str, Any], rows: int) -> Truth:
    """Of ``rows`` rows whether the boolean ``node`` holds.

    Args:
        node: the root of a formula, or a part of it that is true or false.
        figures: by name, of the rows.
        facts: the fields that it names besides, of the rows.
        rows: how many.
    """
    reading = _Reading(figures, facts, rows)
    with np.errstate(all="ignore"):
        return reading.truth(node)


def truth_of_comparison(figure: Bounds, operator: str, threshold: float) -> Truth:
    """The same of a figure that is compared with a threshold below 2^53: as of the formula of that."""
    line = np.full(len(figure.low), threshold, np.float64)
    found = _COMPARED[operator](figure, Bounds(line, line, np.ones_like(figure.there), np.zeros_like(figure.absent)))
    return Truth(found.sure & figure.there, found.maybe & ~figure.absent)


@dataclass(frozen=True, slots=True)
class _Reading:
    figures: Mapping[str, Bounds]
    facts: Mapping[str, Any]
    rows: int

    def truth(self, node: Node) -> Truth:
        """Whether ``node`` holds."""
        if not self._moves(node):
            values, valid = self._exact(node)
            return Truth(values & valid, values & valid)
        match node:
            case Not(operand):
                found = self.truth(operand)
                return Truth(~found.maybe, ~found.sure)
            case Join("and", parts):
                found_all = [self.truth(each) for each in parts]
                return Truth(_all([each.sure for each in found_all]), _all([each.maybe for each in found_all]))
            case Join(_, parts):
                found_all = [self.truth(each) for each in parts]
                return Truth(~_all([~each.sure for each in found_all]), ~_all([~each.maybe for each in found_all]))
            case Compare(operands, operators) if all(each.kind in ("integer", "number") for each in operands):
                bounds = [self._number(each) for each in operands]
                pairs = [_COMPARED[sign](a, b) for a, sign, b in zip(bounds, operators, bounds[1:], strict=False)]
                there = _all([each.there for each in bounds])
                present = ~_all([~each.absent for each in bounds])
                sure, maybe = _all([each.sure for each in pairs]), _all([each.maybe for each in pairs])
                return Truth(sure & there, maybe & ~present)
        return Truth(np.zeros(self.rows, np.bool_), np.ones(self.rows, np.bool_))

    def _moves(self, node: Node) -> bool:
        return any(isinstance(each, Name) and each.name in self.figures for each in walk(node))

    def _exact(self, node: Node) -> tuple[Any, Any]:
        """The values of what names no figure, and where there are any."""
        return FormulaProgram([Formula("", node)]).run(self.facts, self.rows)[0]

    def _number(self, node: Node) -> Bounds:
        if isinstance(node, Name) and node.name in self.figures:
            return self.figures[node.name]
        if not self._moves(node):
            values, valid = self._exact(node)
            real = values.astype(np.float64)
            found = Bounds.of(real, real, valid).wider(np.where(np.abs(real) < 2.0**53, 0.0, _SLACK * np.abs(real)))
            # What is no field may be missing only as what leaves 64 bits, which the formula goes on with.
            return replace(found, absent=~valid) if isinstance(node, Name) else found
        match node:
            case Negate(operand):
                of = self._number(operand)
                return Bounds(-of.high, -of.low, of.there, of.absent)
            case Arithmetic(sign, left, right) if sign in _CORNERS:
                return _combined(_CORNERS[sign], self._number(left), self._number(right), divides=sign == "/")
        return Bounds.unknown(self.rows)


_CORNERS: dict[str, Callable[[F64, F64], F64]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def _combined(operation: Callable[[F64, F64], F64], left: Bounds, right: Bounds, *, divides: bool) -> Bounds:
    """The least and greatest of four corners; of a quotient, where no divisor is zero."""
    corners = np.array([operation(a, b) for a in (left.low, left.high) for b in (right.low, right.high)])
    there = left.there & right.there & np.isfinite(corners).all(axis=0)
    if divides:
        there &= (right.low > 0) | (right.high < 0)
    size = np.max([np.abs(each) for each in (left.low, left.high, right.low, right.high, *corners)], axis=0)
    found = Bounds.of(corners.min(axis=0), corners.max(axis=0), there).wider(_SLACK * size)
    return replace(found, absent=left.absent | right.absent)


def _all(masks: Sequence[Bools]) -> Bools:
    found: Bools = np.logical_and.reduce(masks)
    return found


def _equal(a: Bounds, b: Bounds) -> Truth:
    same = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return Truth(same, (a.low <= b.high) & (b.low <= a.high))


def _unequal(a: Bounds, b: Bounds) -> Truth:
    found = _equal(a, b)
    return Truth(~found.maybe, ~found.sure)


_COMPARED: dict[str, Callable[[Bounds, Bounds], Truth]] = {
    ">=": lambda a, b: Truth(a.low >= b.high, a.high >= b.low),
    ">": lambda a, b: Truth(a.low > b.high, a.high > b.low),
    "<=": lambda a, b: Truth(a.high <= b.low, a.low <= b.high),
    "<": lambda a, b: Truth(a.high < b.low, a.low < b.high),
    "==": _equal,
    "!=": _unequal,
}
