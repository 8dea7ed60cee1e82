"""The functions of formulas over vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.formula.naive import EARTH_KM, LATITUDE_MAX, RADIAN, hour, weekday
from crossline.basics.formula.tree import Call, Compare, Constant, Join, Node, walk
from crossline.basics.formula.vectors import (
    Vector,
    absolute,
    both,
    finite,
    first_there,
    furthest,
    integers,
    real,
    settled,
    texts,
)
from crossline.basics.formula.zones import DAY_MS, near_the_ends, offsets_ms
from crossline.basics.values import F64, I64

Function = Callable[[list[Vector]], Vector]

_HOUR_MS = 3_600_000
_THURSDAY = 3  # 1 January 1970
_TWO_63 = 2.0**63
_HALVES = 2.0**52  # from here on doubles have none
DISTANCE, DISTANCE_OF = "haversine_km", 4  # coordinates
_FAR_KM = 1e5  # no distance is as long
_SLACK = 1e-9  # of a distance, and km: far more than roundings


def function_of(call: Call, least_km: float = 0.0) -> Function:
    """What computes ``call`` from the vectors of its arguments, but for the option, which is a constant of the call.

    ``least_km``: a distance that cannot reach it is a greater one instead that does not reach it either.
    """
    function = _function_of(call, least_km)
    if call.function in {"abs", "min", "max", "missing", "coalesce"}:  # the first three see to it themselves
        return function
    return lambda given: function([_finite(each) for each in given])


def _finite(given: Vector) -> Vector:
    real = isinstance(given.values, np.ndarray) and given.values.dtype.kind == "f"
    return finite(given.values, given.valid) if real and not np.isfinite(given.values).all() else given


def _function_of(call: Call, least_km: float) -> Function:  # noqa: PLR0911 - a table
    match call:
        case Call("abs"):
            return lambda given: absolute(given[0])
        case Call("min" | "max" as name, _, kind):
            operator = "<" if name == "min" else ">"
            return lambda given: furthest(operator, _as_kind(kind, given))
        case Call("coalesce", _, kind):
            return lambda given: _first_there(_as_kind(kind, given))
        case Call("missing"):
            return lambda given: Vector(_missing(given[0]), None)
        case Call("round", (_, Constant(int() as digits))):
            return lambda given: _rounded_to(given[0], digits)
        case Call("round"):
            return lambda given: _rounded(given[0])
        case Call("log"):
            return lambda given: _where_above(pc.ln, real(given[0]), np.greater)
        case Call("sqrt"):
            return lambda given: _where_above(pc.sqrt, real(given[0]), np.greater_equal)
        case Call("haversine_km"):
            return lambda given: _haversine_km([real(each) for each in given], least_km)
        case Call("hour" | "weekday" as name, (_, Constant(str() as where))):
            return lambda given: _clock(name, given[0], where)
        case Call("hour" | "weekday" as name):
            return lambda given: _clock(name, given[0], "")
    raise ValueError(f"{call.function} is no function of columns")


def least_distance_km(roots: Iterable[Node]) -> float:
    """The distance that all of these formulas require before they hold, where they ask for one; 0 where one does not.

    A formula that does not hold below it need not know a shorter distance.
    """
    least = [_required_km(root) for root in roots if any(_is_distance(each) for each in walk(root))]
    return min(least, default=0.0)


def _required_km(root: Node) -> float:
    """What all distances of a formula must reach for it to hold."""
    parts = root.parts if isinstance(root, Join) and root.word == "and" else (root,)
    required: dict[Node, float] = {}
    for part in parts:
        match part:
            case Compare((Call() as distance, Constant(int() | float() as km)), (">" | ">=",)) if _is_distance(
                distance
            ):
                required[distance] = max(required.get(distance, 0.0), float(min(km, _FAR_KM)))
    asked = {each for each in walk(root) if _is_distance(each)}
    return min((required.get(each, 0.0) for each in asked), default=0.0)


def _is_distance(node: Node) -> bool:
    return isinstance(node, Call) and node.function == DISTANCE


def operands_of(call: Call) -> int:
    """How many of its arguments are computed: all but the option."""
    return 1 if call.function in {"round", "hour", "weekday"} else len(call.arguments)


def _as_kind(kind: str, given: list[Vector]) -> list[Vector]:
    return [real(each) for each in given] if kind == "number" else given


def _first_there(given: list[Vector]) -> Vector:
    if isinstance(given[0].values, np.ndarray):
        return first_there(given)
    found = pc.coalesce(*(each.values for each in given))
    return texts(found) if isinstance(found, pa.Array) else Vector(found, None)


def _missing(given: Vector) -> Any:
    return np.zeros(1, dtype=np.bool_) if given.valid is None else np.logical_not(given.valid)


def _rounded(given: Vector) -> Vector:
    if given.whole:
        return given
    nearest = np.rint(given.values)
    if (np.abs(nearest) < _TWO_63).all():
        return integers(nearest.astype(np.int64), given.valid)
    return integers(np.array([int(each) for each in nearest.tolist()], dtype=object), given.valid)


def _rounded_to(given: Vector, digits: int) -> Vector:
    if given.whole:
        return given
    scale = 10.0**digits
    scaled = given.values * scale
    nearest = np.rint(scaled)
    # The product is rounded once and never past a half: where it is none, that is not what decides.
    sure = (np.abs(scaled) < _HALVES) & (np.abs(scaled - nearest) != 0.5)
    found = nearest / scale
    rows = np.flatnonzero(~sure)
    found[rows] = [round(value, digits) for value in given.values[rows].tolist()]
    return settled(found, given.valid)


def _libm(function: Callable[[Any], Any], values: F64) -> F64:
    """Arrow's functions are those of the C library, as Python's are; numpy's may differ in the last bit."""
    found: F64 = function(pa.array(values)).to_numpy(zero_copy_only=False)
    return found


def _where_above(function: Callable[[Any], Any], given: Vector, above: Callable[[Any, float], Any]) -> Vector:
    """``function`` of the values that are ``above`` zero; the others are missing."""
    there = above(given.values, 0.0)
    if there.all():
        return Vector(_libm(function, given.values), given.valid)
    return settled(_libm(function, np.where(there, given.values, 1.0)), both(given.valid, there))


def _haversine_km(given: list[Vector], least_km: float) -> Vector:
    """Of two places; or of two places, then two others and their distance, which is theirs where they are the same.

    Rules ask for the last place of an hour, of a day, and so on: mostly that is one place, and to compute a distance
    takes longer than all else of a formula. So does one that is too short for all of them (see ``function_of``).
    """
    places, others = given[:DISTANCE_OF], given[DISTANCE_OF:]
    there = (np.abs(places[0].values) <= LATITUDE_MAX) & (np.abs(places[2].values) <= LATITUDE_MAX)
    for each in places:
        there = there if each.valid is None else np.logical_and(there, each.valid)
    there = np.broadcast_to(there, np.broadcast_shapes(*(each.values.shape for each in places)))
    found, wanted = np.zeros(there.shape), there
    if least_km > 0.0:
        most_km = _at_most_km(*(each.values for each in places))
        short = np.logical_and(there, most_km < least_km)
        found, wanted = np.where(short, most_km, 0.0), np.greater(there, short)
    if not np.count_nonzero(wanted):
        return Vector(found, there)
    if others and others[-1].values.shape == there.shape:  # of constants there is but one, and not one for each row
        *other_places, distance = others
        same = wanted if distance.valid is None else np.logical_and(wanted, distance.valid)
        for mine, theirs in zip(places, other_places, strict=True):
            same = same if mine.values is theirs.values else np.logical_and(same, mine.values == theirs.values)
        np.copyto(found, distance.values, where=same)
        wanted = np.logical_and(wanted, np.logical_not(same))
    rows = np.flatnonzero(wanted)
    if len(rows):
        found[rows] = _distances_km(*(np.broadcast_to(each.values, there.shape)[rows] for each in places))
    return Vector(found, there)


def _at_most_km(north: F64, east: F64, other_north: F64, other_east: F64) -> F64:
    """No less than ``_distances_km``, roundings included: the way along a meridian, then along the equator."""
    degrees: F64 = np.abs(other_north - north) + np.abs(other_east - east)
    return degrees * (EARTH_KM * RADIAN * (1 + _SLACK)) + _SLACK


def _distances_km(north: F64, east: F64, other_north: F64, other_east: F64) -> F64:
    north, east, other_north, other_east = (each * RADIAN for each in (north, east, other_north, other_east))
    across, along = _libm(pc.sin, (other_north - north) / 2), _libm(pc.sin, (other_east - east) / 2)
    part = across * across + _libm(pc.cos, north) * _libm(pc.cos, other_north) * (along * along)
    distances: F64 = 2 * EARTH_KM * _libm(pc.asin, np.minimum(1.0, np.sqrt(part)))
    return distances


def _clock(name: str, given: Vector, where: str) -> Vector:
    """Hour or weekday. The few instants near the ends of the calendar are asked of Python's own."""
    if given.wide:
        far = np.abs(given.values) > 2**62
        given = integers(np.where(far, 2**62, given.values), given.valid)
    instants_ms: I64 = given.values
    odd = near_the_ends(instants_ms)
    usual_ms = instants_ms
    if len(odd):
        usual_ms = instants_ms.copy()
        usual_ms[odd] = 0
    local_ms = usual_ms + offsets_ms(usual_ms, where) if where else usual_ms
    found = local_ms // _HOUR_MS % 24 if name == "hour" else (local_ms // DAY_MS + _THURSDAY) % 7
    there = np.ones(len(found), dtype=np.bool_)
    ask = hour if name == "hour" else weekday
    for row in odd.tolist():
        shown = ask(int(instants_ms[row]), where)
        found[row], there[row] = (0, False) if shown is None else (shown, True)
    valid = given.valid if not len(odd) else both(given.valid, there)
    return integers(found, valid, 23)
