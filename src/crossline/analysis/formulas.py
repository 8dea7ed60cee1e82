"""Formulas as claims. Of what is computed bounds are known: each operation of the bounds, rounded as it is."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from crossline.analysis.claims import ALWAYS, NEVER, All, Claim, Denied, Opaque, Present, Some, Test, relation
from crossline.analysis.satisfiability import Known
from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.tree import (
    FAMILIES,
    Arithmetic,
    Call,
    Compare,
    Constant,
    Join,
    Membership,
    Name,
    Negate,
    Node,
    Not,
)

_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_EARTH_MAX_KM = 20_040.0  # half way round, and some
_BOUNDED = {"hour": (0, 23), "weekday": (0, 6), "haversine_km": (0, _EARTH_MAX_KM), "sqrt": (0, math.inf)}


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number from ``low`` to ``high``, where it is not missing."""

    low: float = -math.inf
    high: float = math.inf
    missing: bool = True


ANYTHING = Bounds()


def claim_of_formula(node: Node, known: Known) -> Claim:  # noqa: PLR0911 - a table
    """That ``node``, which is true or false, is true; ``known``: what its names may be."""
    match node:
        case Constant(value):
            return ALWAYS if value is True else NEVER
        case Name(name):
            return Test(name, "==", True, "boolean")
        case Not(operand):
            return Denied(claim_of_formula(operand, known))
        case Join(word, parts):
            claims = tuple(claim_of_formula(each, known) for each in parts)
            return All(claims) if word == "and" else Some(claims)
        case Compare(operands, operators):
            pairs = zip(operands, operators, operands[1:], strict=False)
            return All(tuple(_pair(left, sign, right, known) for left, sign, right in pairs))
        case Membership(Name(name), members, negated):
            values = tuple(each.value for each in members)
            return Test(name, "not_in" if negated else "in", values, members[0].kind)
        case Call("missing", (Name(name),)):
            return Denied(Present(name))
    return Opaque(canonical(node))


def _pair(left: Node, sign: str, right: Node, known: Known) -> Claim:
    match left, right:
        case Name(name), Constant(value, kind):
            return Test(name, sign, value, FAMILIES[kind])
        case Constant(value, kind), Name(name):
            return Test(name, _TURNED[sign], value, FAMILIES[kind])
        case Name(one), Name(other):
            return relation(one, sign, other)
    text = f"{canonical(left)} {sign} {canonical(right)}"
    if FAMILIES[left.kind] != "number":
        return Opaque(text)
    a, b = bounds_of(left, known), bounds_of(right, known)
    return Opaque(text, _can_hold(a, sign, b), a.missing or b.missing or not _must_hold(a, sign, b))


def _can_hold(a: Bounds, sign: str, b: Bounds) -> bool:
    if sign in {"<", "<="}:
        return a.low < b.high or (sign == "<=" and a.low == b.high)
    if sign in {">", ">="}:
        return _can_hold(b, _TURNED[sign], a)
    if sign == "==":
        return a.low <= b.high and b.low <= a.high
    return not a.low == a.high == b.low == b.high


def _must_hold(a: Bounds, sign: str, b: Bounds) -> bool:
    """Of numbers that are both there."""
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}[sign]
    return not _can_hold(a, opposite, b)


def bounds_of(node: Node, known: Known) -> Bounds:  # noqa: PLR0911 - a table
    """The bounds of a number."""
    match node:
        case Constant(bool() | str()):
            return ANYTHING
        case Constant(value):
            return Bounds(float_or_whole(value), float_or_whole(value), missing=False)
        case Name(name):
            values = known[name]
            return Bounds(values.low, values.high, values.missing)
        case Negate(operand):
            inner = bounds_of(operand, known)
            return Bounds(-inner.high, -inner.low, inner.missing)
        case Arithmetic(sign, left, right, kind):
            found = _arithmetic(sign, bounds_of(left, known), bounds_of(right, known))
            return Bounds(found.low, found.high, found.missing or kind == "number")
        case Call(function, arguments):
            return _call(function, [bounds_of(each, known) for each in arguments if FAMILIES[each.kind] == "number"])
    return ANYTHING


def float_or_whole(value: float | str) -> float:
    """A literal that is a number."""
    return value if isinstance(value, int | float) else math.nan


def _arithmetic(sign: str, a: Bounds, b: Bounds) -> Bounds:
    missing = a.missing or b.missing
    if sign in _ARITHMETIC:
        work = _ARITHMETIC[sign]
        ends = [_safe(work, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return ANYTHING if None in ends else Bounds(*_ends(ends), missing)
    if sign == "/" and (b.low > 0 or b.high < 0):
        ends = [_safe(operator.truediv, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return ANYTHING if None in ends else Bounds(*_ends(ends), missing=True)
    if sign == "/" and ((a.low >= 0 and b.low >= 0) or (a.high <= 0 and b.high <= 0)):
        return Bounds(0, math.inf)
    if sign == "%" and b.low == b.high and 0 < b.low < math.inf:
        return Bounds(0, b.high)
    return ANYTHING


def _safe(work: Callable[[float, float], float], x: float, y: float) -> float | None:
    """``work(x, y)``; an end that is not reached times nothing is nothing. None if there is no such number."""
    if work is operator.mul and 0 in {x, y}:
        return 0
    try:
        found = work(x, y)
    except OverflowError:
        return None
    return None if math.isnan(found) else found


def _ends(found: list[float | None]) -> tuple[float, float]:
    ends = [each for each in found if each is not None]
    return min(ends), max(ends)


def _call(function: str, given: list[Bounds]) -> Bounds:
    missing = any(each.missing for each in given)
    if function in _BOUNDED:
        return Bounds(*_BOUNDED[function])
    if function == "abs":
        (inner,) = given
        furthest = max(abs(inner.low), abs(inner.high))
        nearest = 0 if inner.low <= 0 <= inner.high else min(abs(inner.low), abs(inner.high))
        return Bounds(nearest, furthest, missing)
    if function in {"min", "max"}:
        pick: Callable[[list[float]], float] = min if function == "min" else max
        return Bounds(pick([each.low for each in given]), pick([each.high for each in given]), missing)
    if function == "coalesce":
        all_missing = all(each.missing for each in given)
        return Bounds(min(each.low for each in given), max(each.high for each in given), all_missing)
    return ANYTHING
