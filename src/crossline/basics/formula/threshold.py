"""Against what a verdict holds a value: the comparison of it with a plain number, among all that the verdict asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from crossline.basics.formula.formula import TURNED
from crossline.basics.formula.naive import evaluate
from crossline.basics.formula.tree import Compare, ComparisonOperator, Constant, Join, Negate, Node, Not

_DENIED: dict[ComparisonOperator, ComparisonOperator] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}


class Threshold(NamedTuple):
    """``value operator number``."""

    operator: ComparisonOperator
    number: int | float


def certain_threshold(verdict: Node, value: Node) -> Threshold | None:
    """The first comparison of ``value`` with a number that is met wherever ``verdict`` holds; None: there is none."""
    match verdict:
        case Join("and", parts):
            return next((found for each in parts if (found := certain_threshold(each, value)) is not None), None)
        case Join():
            return None
        case Not(operand) if not isinstance(operand, Compare):
            return None
    return threshold_at(verdict, value, None)


def threshold_at(
    verdict: Node, value: Node, record: Mapping[str, Any] | None, *, denied: bool = False
) -> Threshold | None:
    """The first comparison of ``value`` with a number by which ``verdict`` holds for ``record`` (None: by any).

    ``denied``: a ``not`` stands before it. Of alternatives those that do not hold say nothing of the value.
    """
    if record is not None and (evaluate(verdict, record) is True) == denied:
        return None
    match verdict:
        case Not(operand):
            return threshold_at(operand, value, record, denied=not denied)
        case Join(_, parts):
            found = (threshold_at(each, value, record, denied=denied) for each in parts)
            return next((each for each in found if each is not None), None)
        case Compare(operands, operators):
            return None if denied and len(operators) > 1 else _compared(operands, operators, value, denied=denied)
    return None


def _compared(
    operands: tuple[Node, ...], operators: tuple[ComparisonOperator, ...], value: Node, *, denied: bool
) -> Threshold | None:
    for left, operator, right in zip(operands, operators, operands[1:], strict=False):
        for side, sign, other in ((left, operator, right), (right, TURNED[operator], left)):
            number = _number(other)
            if side == value and number is not None:
                return Threshold(_DENIED[sign] if denied else sign, number)
    return None


def _number(node: Node) -> int | float | None:
    match node:
        case Constant(int() | float() as number, "integer" | "number"):
            return number
        case Negate(Constant(int() | float() as number, "integer" | "number")):
            return -number
    return None
