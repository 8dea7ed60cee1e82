"""Values of one node for all rows, and arithmetic on them that agrees with Python's to the last bit.

What 64 bits cannot hold, or a double would round, is computed by Python's own integers, in arrays of objects. That is
slow and rare: each vector of integers knows how large its values can be, so one comparison shows when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.conditions.membership import Mask, as_mask
from crossline.basics.formula.naive import arithmetic, as_kind
from crossline.basics.values import F64

I64_MAX = 2**63 - 1
# Every integer up to here is a double.
EXACT_MAX = 2**53

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.remainder,
}
_REACH: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left + right,
    "*": lambda left, right: left * right,
    "//": lambda left, _right: left,
    "%": lambda _left, right: right,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Vector:
    """One value for each row, or a single one for all of them.

    ``values``: int64, float64, bool, or Python integers (dtype object) where some are beyond 64 bits; of texts an Arrow
    array or scalar. ``valid``: bool, False where missing (the value is then 0, False or null); None: none is missing.
    ``reach``: no integer's absolute value is larger; 0 for what is no integer.
    """

    values: Any
    valid: Mask | None
    reach: int = 0

    @property
    def whole(self) -> bool:
        """Whether these are integers."""
        return self.values.dtype.kind in "iO"

    @property
    def wide(self) -> bool:
        """Whether some are beyond 64 bits."""
        return bool(self.values.dtype.kind == "O")


def settled(values: Any, valid: Mask | None) -> Vector:
    """Doubles or truths, zero where they are missing."""
    valid = _unless_all(valid)
    return Vector(values if valid is None else np.where(valid, values, values.dtype.type(0)), valid)


def _unless_all(valid: Mask | None) -> Mask | None:
    """None where nothing is missing: what is computed of it need not look for what is."""
    return None if valid is None or valid.all() else valid


def there(values: Any, valid: Mask | None) -> Vector:
    """Doubles, of which those that are no number are missing: a sum may be infinite."""
    odd = np.isnan(values)
    return settled(values, both(valid, np.logical_not(odd)) if odd.any() else valid)


def finite(values: Any, valid: Mask | None) -> Vector:
    """Doubles, of which those that are not finite are missing, as is what is reckoned with such a one."""
    good = np.isfinite(values)
    return settled(values, valid if good.all() else both(valid, good))


def integers(values: Any, valid: Mask | None, reach: int | None = None) -> Vector:
    """Integers, zero where they are missing; ``reach`` where it is known."""
    valid = _unless_all(valid)
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0) if values.dtype.kind == "i" else 0)
    if values.dtype.kind == "O":
        try:
            values = values.astype(np.int64)
        except OverflowError:
            return Vector(values, valid, max(map(abs, values.tolist())))
    if reach is None or reach > I64_MAX:
        reach = max(-int(values.min()), int(values.max())) if values.size else 0
    return Vector(values, valid, reach)


def texts(values: Any) -> Vector:
    """Texts, of an Arrow array."""
    return Vector(values, as_mask(values.is_valid()) if values.null_count else None)


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Where neither is missing."""
    if left is None or right is None:
        return right if left is None else left
    return np.logical_and(left, right)


def objects(vector: Vector) -> Any:
    """The values as Python's own."""
    return vector.values.astype(object)


def real(vector: Vector) -> Vector:
    """The doubles nearest to the values; missing where there is none."""
    if not vector.whole:
        return vector
    if not vector.wide:
        return Vector(vector.values.astype(np.float64), vector.valid)
    return finite(row_by_row(lambda value: as_kind(value, "number"), vector), vector.valid)


def row_by_row(function: Callable[..., float | None], *vectors: Vector) -> F64:
    """``function`` of Python's own numbers, row by row; NaN for None."""
    columns = np.broadcast_arrays(*(each.values for each in vectors))
    rows = zip(*(each.tolist() for each in columns), strict=True)
    return np.array([np.nan if (value := function(*row)) is None else value for row in rows], dtype=np.float64)


def compute(operator: str, left: Vector, right: Vector) -> Vector:
    """``left operator right``; missing where one of them is, where the divisor is zero, and where it is not finite."""
    if not (left.whole and right.whole):
        return _reals(operator, real(left), real(right))
    if operator == "/" and max(left.reach, right.reach) <= EXACT_MAX:
        return _reals(operator, real(left), real(right))
    if operator == "/":
        found = row_by_row(lambda above, below: arithmetic("/", above, below, "number"), left, right)
        return finite(found, both(left.valid, right.valid))
    divisors, valid = right.values, both(left.valid, right.valid)
    if operator in {"//", "%"}:
        divisors, valid = _divisors(right, valid)
    reach = _REACH[operator](left.reach, right.reach)
    if left.wide or right.wide or reach > I64_MAX:
        found = _ARITHMETIC[operator](objects(left), divisors.astype(object))
        return integers(found, valid)
    return integers(_ARITHMETIC[operator](left.values, divisors), valid, reach)


def _reals(operator: str, left: Vector, right: Vector) -> Vector:
    divisors, valid = right.values, both(left.valid, right.valid)
    if operator in {"/", "//", "%"}:
        divisors, valid = _divisors(right, valid)
    return finite(_ARITHMETIC[operator](left.values, divisors), valid)


def _divisors(right: Vector, valid: Mask | None) -> tuple[Any, Mask | None]:
    """The values without zeros, and where there were none; an infinite one is none that anything is divided by."""
    usable: Mask = right.values != 0
    if right.values.dtype.kind == "f":
        usable &= np.isfinite(right.values)
    if usable.all():
        return right.values, valid
    return np.where(usable, right.values, right.values.dtype.type(1) if not right.wide else 1), both(valid, usable)


def compare(operator: str, left: Vector, right: Vector) -> Mask:
    """Where ``left operator right`` holds, exactly also of an integer and a double; not where one is missing."""
    a, b = left.values, right.values
    if left.wide or right.wide or (left.whole != right.whole and max(left.reach, right.reach) > EXACT_MAX):
        a, b = objects(left), objects(right)
    mask: Mask = _COMPARE[operator](a, b)
    valid = both(left.valid, right.valid)
    return mask if valid is None else np.logical_and(mask, valid)


def negate(operand: Vector) -> Vector:
    """``-operand``."""
    return _unary(np.negative, operand)


def absolute(operand: Vector) -> Vector:
    """``abs(operand)``."""
    return _unary(np.absolute, operand)


def _unary(function: Callable[[Any], Any], operand: Vector) -> Vector:
    if not operand.whole:
        return finite(function(operand.values), operand.valid)
    values = objects(operand) if operand.wide or operand.reach > I64_MAX else operand.values
    return integers(function(values), operand.valid, operand.reach)


def furthest(operator: str, vectors: list[Vector]) -> Vector:
    """The least (``<``) or greatest (``>``) of each row, the first of equals; missing where one is or is infinite.

    All are of one kind.
    """
    found, *others = [each if each.whole else finite(each.values, each.valid) for each in vectors]
    for each in others:
        better = _COMPARE[operator](each.values, found.values)
        values, valid = np.where(better, each.values, found.values), both(found.valid, each.valid)
        reach = max(found.reach, each.reach)
        found = integers(values, valid, reach) if each.whole else settled(values, valid)
    return found


def first_there(vectors: list[Vector]) -> Vector:
    """The first of each row that is not missing. All of one kind."""
    found, *others = vectors
    for each in others:
        if found.valid is None:
            break
        values = np.where(found.valid, found.values, each.values)
        valid = None if each.valid is None else np.logical_or(found.valid, each.valid)
        reach = max(found.reach, each.reach)
        found = integers(values, valid, reach) if each.whole else settled(values, valid)
    return found
