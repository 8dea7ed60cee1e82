"""The functions of formulas over vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.formula.naive import EARTH_KM, LATITUDE_MAX, RADIAN, hour, weekday
from crossline.basics.formula.tree import Call, Constant
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
DISTANCE_OF = 4  # coordinates


def function_of(call: Call) -> Function:
    """What computes ``call`` from the vectors of its arguments, but for the option, which is a constant of the call."""
    function = _function_of(call)
    if call.function in {"abs", "min", "max", "missing", "coalesce"}:  # the first three see to it themselves
        return function
    return lambda given: function([_finite(each) for each in given])


def _finite(given: Vector) -> Vector:
    real = isinstance(given.values, np.ndarray) and given.values.dtype.kind == "f"
    return finite(given.values, given.valid) if real else given


def _function_of(call: Call) -> Function:  # noqa: PLR0911 - a table
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
            return lambda given: _haversine_km([real(each) for each in given])
        case Call("hour" | "weekday" as name, (_, Constant(str() as where))):
            return lambda given: _clock(name, given[0], where)
        case Call("hour" | "weekday" as name):
            return lambda given: _clock(name, given[0], "")
    raise ValueError(f"{call.function} is no function of columns")


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


def _haversine_km(given: list[Vector]) -> Vector:
    """Of two places; or of two places, then two others and their distance, which is theirs where they are the same.

    Rules ask for the last place of an hour, of a day, and so on: mostly that is one place, and to compute a distance
    takes longer than all else of a formula.
    """
    places, others = given[:DISTANCE_OF], given[DISTANCE_OF:]
    shapes = np.broadcast_arrays(*(each.values for each in places))
    there = (np.abs(shapes[0]) <= LATITUDE_MAX) & (np.abs(shapes[2]) <= LATITUDE_MAX)
    for each in places:
        there = there if each.valid is None else np.logical_and(there, each.valid)
    found, wanted = np.zeros(there.shape), there
    if others and others[-1].values.shape == there.shape:  # of constants there is but one, and not one for each row
        *other_places, distance = others
        same = there if distance.valid is None else np.logical_and(there, distance.valid)
        for mine, theirs in zip(places, other_places, strict=True):
            same = same if mine.values is theirs.values else np.logical_and(same, mine.values == theirs.values)
        np.copyto(found, distance.values, where=same)
        wanted = np.logical_and(there, np.logical_not(same))
    rows = np.flatnonzero(wanted)
    if len(rows):
        found[rows] = _distances_km(*(np.broadcast_to(each, there.shape)[rows] for each in shapes))
    return Vector(found, there)


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
