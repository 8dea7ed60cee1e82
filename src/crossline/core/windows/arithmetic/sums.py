"""Rolling sums: of integers in 128 bits, of floats in two parts, of squares for deviations, with bounds on errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.core.windows.arithmetic.exact import two_product, two_sum
from crossline.core.windows.memory.access import inlined, jit, load_f64, load_i64, store_8, store_64, store_f64
from crossline.core.windows.memory.header import (
    item,
    value_f,
    value_i,
)
from crossline.core.windows.memory.layout import (
    COLUMN_FLOAT,
    DEVIATION_BYTES,
    ERROR,
    PAIR,
    PAIR_REST,
    SQUARES,
    SUM_LOW,
    SUM_UP,
)


@inlined
def add_whole(at: int, x: int) -> None:
    """Add ``x`` to the sum of integers at ``at``."""
    low = load_i64(at + SUM_LOW)
    total = low + x
    store_64(at + SUM_LOW, total)
    if (low ^ total) & (x ^ total) < 0:
        store_64(at + SUM_UP, load_i64(at + SUM_UP) + (1 if x > 0 else -1))


@inlined
def take_whole(at: int, x: int) -> None:
    """Take ``x`` off the sum of integers at ``at``."""
    low = load_i64(at + SUM_LOW)
    total = low - x
    store_64(at + SUM_LOW, total)
    if (low ^ x) & (low ^ total) < 0:
        store_64(at + SUM_UP, load_i64(at + SUM_UP) + (1 if x < 0 else -1))


@jit
def add_pair(at: int, x: float) -> Any:
    """Add ``x`` to the two-part sum at ``at``; what was lost beyond the two parts, 0 where the sum is still exact."""
    t, error = two_sum(load_f64(at + PAIR), x)
    u, lost = two_sum(load_f64(at + PAIR_REST), error)
    high = t + u
    store_f64(at + PAIR, high)
    store_f64(at + PAIR_REST, u - (high - t))
    return lost


@jit
def add_float(at: int, rough: int, x: float) -> None:
    """Add ``x`` to the sum at ``at``, marked at ``rough`` where it is no longer exact."""
    if add_pair(at, x) != 0.0:  # also where it is NaN, after an overflow
        store_8(rough, 1)


@jit
def pair_of(h: int, r: int, col: int) -> Any:
    """The value of record ``r`` as a pair of floats, which holds any int64."""
    if item(h, COLUMN_FLOAT, col):
        return value_f(h, r, col), 0.0
    value = value_i(h, r, col)
    # In halves, as the float next to the end of int64 cannot be taken back.
    return two_sum(np.float64(value >> 32) * 4294967296.0, np.float64(value & 0xFFFFFFFF))


@jit
def add_deviation(h: int, at: int, r: int, col: int, sign: float) -> None:
    """Add (sign 1) the value of ``r`` and its square to the accumulator at ``at``, or take them off (sign -1)."""
    x, x2 = pair_of(h, r, col)
    lost = abs(add_pair(at, sign * x))
    if x2 != 0.0:
        lost += abs(add_pair(at, sign * x2))
    if lost != 0.0:  # or NaN
        store_f64(at + ERROR, math.inf)  # a sum that is off makes any variance doubtful
    p, e = two_product(x, x)
    e2 = 2.0 * x * x2
    off = abs(add_pair(at + SQUARES, sign * p)) + abs(add_pair(at + SQUARES, sign * e))
    if x2 != 0.0:
        off += abs(add_pair(at + SQUARES, sign * e2)) + x2 * x2 + abs(e2) * 1e-15
    store_f64(at + ERROR, load_f64(at + ERROR) + off)


@jit
def clear_deviation(at: int) -> None:
    """Make the accumulator exactly nothing."""
    for k in range(0, DEVIATION_BYTES, 8):
        store_f64(at + k, 0.0)
