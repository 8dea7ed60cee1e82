"""Rolling sums: of integers in 128 bits, of floats in two parts, of squares for deviations, with bounds on errors.

A decayed sum grows with time instead: its values are worth 2^(t / half life), whose whole powers of two are kept apart,
so that a subtraction undoes exactly what was added, whatever came between.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.double_double import two_product, two_sum
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import clock, value_f, value_i
from crossline.state.memory.fields import get, load, store
from crossline.state.memory.layout import (
    COLUMN_FLOAT,
    DEVIATION_BYTES,
    ERROR,
    PAIR,
    PAIR_REST,
    ROUGH,
    SQUARES,
    SQUARES_REST,
    SUM_LOW,
    SUM_UP,
)

WHOLE_MAX, SMALL_MAX = 2.0**53, 2.0**26  # up to here floats have every integer, and its square


@inlined
def add_whole(at: int, x: int) -> None:
    """Add ``x`` to the sum of integers at ``at``."""
    low = load(at, SUM_LOW)
    total = low + x
    store(at, SUM_LOW, total)
    if (low ^ total) & (x ^ total) < 0:
        store(at, SUM_UP, load(at, SUM_UP) + (1 if x > 0 else -1))


@inlined
def take_whole(at: int, x: int) -> None:
    """Take ``x`` off the sum of integers at ``at``."""
    low = load(at, SUM_LOW)
    total = low - x
    store(at, SUM_LOW, total)
    if (low ^ x) & (low ^ total) < 0:
        store(at, SUM_UP, load(at, SUM_UP) + (1 if x < 0 else -1))


@jit
def add_pair(at: int, x: float) -> Any:
    """Add ``x`` to the two-part sum at ``at``; what was lost beyond the two parts, 0 where the sum is still exact."""
    t, error = two_sum(load(at, PAIR), x)
    u, lost = two_sum(load(at, PAIR_REST), error)
    high = t + u
    store(at, PAIR, high)
    store(at, PAIR_REST, u - (high - t))
    return lost


@jit
def add_float(at: int, rough: int, x: float) -> None:
    """Add ``x`` to the sum at ``at``, marked at ``rough`` where it is no longer exact."""
    if add_pair(at, x) != 0.0:  # also where it is NaN, after an overflow
        store(rough, ROUGH, 1)


@jit
def pair_of(h: int, r: int, col: int) -> Any:
    """The value of record ``r`` as a pair of floats, which holds any int64."""
    if get(h, COLUMN_FLOAT, col):
        return value_f(h, r, col), 0.0
    value = value_i(h, r, col)
    # In halves: the float next to the end of int64 cannot be converted back.
    return two_sum(np.float64(value >> 32) * 4294967296.0, np.float64(value & 0xFFFFFFFF))


@inlined
def _add_small(at: int, sign: float, value: int) -> Any:
    """Add an integer and its square where all stays in the range in which floats have every integer. Whether it does.

    A rest of nothing says that so far each sum was one of integers in that range.
    """
    x = np.float64(value)
    if not (-SMALL_MAX <= x <= SMALL_MAX and load(at, PAIR_REST) == 0.0 and load(at, SQUARES_REST) == 0.0):
        return False
    total, squares = load(at, PAIR) + sign * x, load(at, SQUARES) + sign * (x * x)
    if not (-WHOLE_MAX <= total <= WHOLE_MAX and squares <= WHOLE_MAX):
        return False
    store(at, PAIR, total)
    store(at, SQUARES, squares)
    return True


@jit
def add_deviation(h: int, at: int, r: int, col: int, sign: float) -> None:
    """Add (sign 1) the value of ``r`` and its square to the accumulator at ``at``, or take them off (sign -1)."""
    if get(h, COLUMN_FLOAT, col) == 0 and _add_small(at, sign, value_i(h, r, col)):
        return
    x, x2 = pair_of(h, r, col)
    lost = abs(add_pair(at, sign * x))
    if x2 != 0.0:
        lost += abs(add_pair(at, sign * x2))
    if lost != 0.0:  # or NaN
        store(at, ERROR, math.inf)  # a sum that is off makes any variance doubtful
    p, e = two_product(x, x)
    e2 = 2.0 * x * x2
    off = abs(add_pair(at + SQUARES, sign * p)) + abs(add_pair(at + SQUARES, sign * e))
    if x2 != 0.0:
        off += abs(add_pair(at + SQUARES, sign * e2)) + x2 * x2 + abs(e2) * 1e-15
    store(at, ERROR, load(at, ERROR) + off)


@jit
def clear_deviation(at: int) -> None:
    """Make the accumulator exactly nothing."""
    for k in range(0, DEVIATION_BYTES, 8):
        store(at + k, PAIR, 0.0)


FAR = 256  # half lives: a sum is exact at a value that is no further behind the latest of its values


@jit
def scaled(x: float, half_lives: float) -> Any:
    """``x`` * 2 to the power of so many half lives, which are whole."""
    return math.ldexp(x, int(max(-2000.0, min(2000.0, half_lives))))


@jit
def grown(h: int, r: int, half_ms: int) -> Any:
    """2 to the power of the part of a half life at which record ``r`` stands, from 1 to below 2."""
    return 2.0 ** (np.float64(clock(h, r) % half_ms) / np.float64(half_ms))


@jit
def add_decayed(h: int, at: int, r: int, col: int, half_ms: int, sign: float) -> None:
    """Add (sign 1) the value of ``r`` to the decayed sum at ``at``, or take it off (sign -1)."""
    x, _ = pair_of(h, r, col)
    now, kept = np.float64(clock(h, r) // half_ms), load(at, SQUARES)
    if load(at, PAIR) == 0.0 and load(at, PAIR_REST) == 0.0:
        kept = now
    elif now - kept > FAR:
        store(at, PAIR, scaled(load(at, PAIR), kept - now))
        store(at, PAIR_REST, scaled(load(at, PAIR_REST), kept - now))
        kept = now
    store(at, SQUARES, kept)
    add_pair(at, scaled(sign * x * grown(h, r, half_ms), now - kept))


@jit
def decayed(h: int, at: int, i: int, col: int, half_ms: int, extra: int) -> Any:
    """What the decayed sum at ``at`` is worth at the time of record ``i``; ``extra``: one to count in (-1: none)."""
    now, kept = np.float64(clock(h, i) // half_ms), load(at, SQUARES)
    total = scaled(load(at, PAIR) / grown(h, i, half_ms), kept - now)
    if extra >= 0:
        x, _ = pair_of(h, extra, col)
        then = np.float64(clock(h, extra) // half_ms)
        total += scaled(x * grown(h, extra, half_ms) / grown(h, i, half_ms), then - now)
    return total
