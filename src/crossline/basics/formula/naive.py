"""A formula evaluated for one record: the naive twin of the columns, plain enough to be seen to be right.

Missing is None. A comparison or ``in`` with a missing side is false, ``!=`` and ``not in`` too; to ``and``, ``or`` and
``not`` a missing truth is false. Arithmetic and functions of something missing are missing; so is whatever is reckoned
with an infinite figure, which compares as what it is; quotients by zero, real results that are not finite, logarithms
and roots of what has none, and local times outside the years 1 to 9999.
Integers are Python's: exact at any size. Where a real number is asked for, one that no double reaches is missing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.fields import FieldKind
from crossline.basics.formula.tree import Arithmetic, Call, Compare, Constant, Join, Membership, Name, Negate, Node, Not
from crossline.basics.formula.zones import local_time, zone

EARTH_KM = 6371.0088  # the mean radius, (2a + b) / 3 of the ellipsoid WGS 84
LATITUDE_MAX = 90.0
RADIAN = math.pi / 180

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def evaluate(node: Node, record: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - a table
    """The value of ``node`` for ``record`` (nested, or flat with dotted names; figures by name); None: missing."""
    match node:
        case Constant(value):
            return value
        case Name(name, kind):
            return as_kind(lookup(record, name), kind)
        case Negate(operand):
            value = finite(evaluate(operand, record))
            return None if value is None else -value
        case Not(operand):
            return evaluate(operand, record) is not True
        case Join("and", parts):
            return all(evaluate(each, record) is True for each in parts)
        case Join(_, parts):
            return any(evaluate(each, record) is True for each in parts)
        case Arithmetic(sign, left, right, kind):
            return arithmetic(sign, evaluate(left, record), evaluate(right, record), kind)
        case Compare(operands, operators):
            values = [evaluate(each, record) for each in operands]
            pairs = zip(values, operators, values[1:], strict=False)
            return all(a is not None and b is not None and COMPARE[sign](a, b) for a, sign, b in pairs)
        case Membership(operand, members, negated):
            value = evaluate(operand, record)
            return value is not None and any(value == each.value for each in members) != negated
        case Call(function, arguments, kind):
            return call(function, [evaluate(each, record) for each in arguments], kind)


def value_of(node: Node, record: Mapping[str, Any]) -> Any:
    """What the whole formula gives: as ``evaluate``, but an integer that leaves 64 bits is missing."""
    value = evaluate(node, record)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and not -(2**63) <= value < 2**63 else value


def as_kind(value: Any, kind: FieldKind) -> Any:
    """``value`` as one of ``kind``: a real one where that is asked for, missing where no double reaches it."""
    if kind != "number" or value is None:
        return value
    try:
        real = float(value)
    except OverflowError:
        return None
    return None if math.isnan(real) else real


def finite(value: Any) -> Any:
    """``value``; missing where it is infinite."""
    return None if isinstance(value, float) and math.isinf(value) else value


def arithmetic(sign: str, left: Any, right: Any, kind: FieldKind) -> Any:
    """``left sign right``; a quotient of integers is the double nearest to the exact one."""
    if finite(left) is None or finite(right) is None:
        return None
    try:
        return finite(as_kind(_ARITHMETIC[sign](left, right), kind))
    except (ZeroDivisionError, OverflowError):
        return None


def call(function: str, arguments: list[Any], kind: FieldKind) -> Any:
    """``function`` of ``arguments``."""
    if function == "missing":
        return arguments[0] is None
    if function == "coalesce":
        return next((each for each in (as_kind(each, kind) for each in arguments) if each is not None), None)
    if kind == "number":
        arguments = [as_kind(each, kind) if function != "round" else each for each in arguments]
    arguments = [finite(each) for each in arguments]
    return None if any(each is None for each in arguments) else _FUNCTIONS[function](*arguments)


def logarithm(value: float) -> float | None:
    """The natural one; None where there is none."""
    return math.log(value) if value > 0 else None


def root(value: float) -> float | None:
    """The square root; None of what is negative."""
    return math.sqrt(value) if value >= 0 else None


def haversine_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float | None:
    """Kilometres along the ground between two places in degrees; None where a latitude is beyond a pole."""
    if abs(lat) > LATITUDE_MAX or abs(other_lat) > LATITUDE_MAX:
        return None
    north, east, other_north, other_east = (each * RADIAN for each in (lat, lon, other_lat, other_lon))
    across, along = math.sin((other_north - north) / 2), math.sin((other_east - east) / 2)
    part = across * across + math.cos(north) * math.cos(other_north) * (along * along)
    return 2 * EARTH_KM * math.asin(min(1.0, math.sqrt(part)))


def hour(ms: int, where: str = "") -> int | None:
    """The hour that clocks show at ``ms`` of the epoch, in UTC or the zone ``where``."""
    shown = local_time(ms, zone(where) if where else UTC)
    return None if shown is None else shown.hour


def weekday(ms: int, where: str = "") -> int | None:
    """The day of the week, Monday 0, that calendars show at ``ms`` of the epoch, in UTC or the zone ``where``."""
    shown = local_time(ms, zone(where) if where else UTC)
    return None if shown is None else shown.weekday()


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "round": round,
    "log": logarithm,
    "sqrt": root,
    "haversine_km": haversine_km,
    "hour": hour,
    "weekday": weekday,
}
