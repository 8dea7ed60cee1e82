"""Sums that are right to the last bit whatever the order: Shewchuk's partial sums, and pairs of floats for the rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.core.windows.memory import jit, load_f64, store_f64

PARTIALS_MAX = 64  # more than the exponents of float64 can fill with 53 bits each


@jit
def two_sum(a: float, b: float) -> Any:
    """A + b rounded, and what rounding lost."""
    t = a + b
    z = t - a
    return t, (a - (t - z)) + (b - z)


@jit
def two_product(a: float, b: float) -> Any:
    """A * b rounded, and what rounding lost (Dekker's split)."""
    p = a * b
    x = 134217729.0 * a
    a1 = x - (x - a)
    a2 = a - a1
    y = 134217729.0 * b
    b1 = y - (y - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@jit
def pair_add(a: float, a2: float, b: float, b2: float) -> Any:
    """The sum of two pairs of floats."""
    t, e = two_sum(a, b)
    u, v = two_sum(a2, b2)
    t, e = two_sum(t, e + u)
    return two_sum(t, e + v)


@jit
def pair_product(a: float, a2: float, b: float, b2: float) -> Any:
    """The product of two pairs of floats."""
    p, e = two_product(a, b)
    return two_sum(p, e + (a * b2 + a2 * b))


@jit
def pair_divide(a: float, a2: float, n: float) -> Any:
    """(a + a2) / n for a whole n, as a pair."""
    q = a / n
    p, e = two_product(q, n)
    q2 = ((a - p) - e + a2) / n
    return two_sum(q, q2)


@jit
def pair_sqrt(a: float, a2: float) -> Any:
    """The square root of a + a2, rounded."""
    if a <= 0.0:
        return 0.0
    r = math.sqrt(a)
    p, e = two_product(r, r)
    return r + ((a - p) - e + a2) / (2.0 * r)


@jit
def partials_add(partials: int, count: int, x: float) -> Any:
    """Take ``x`` into the partial sums at address ``partials`` (not overlapping, growing); how many there are then."""
    kept = 0
    for j in range(count):
        y = load_f64(partials + 8 * j)
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            store_f64(partials + 8 * kept, low)
            kept += 1
        x = high
    store_f64(partials + 8 * kept, x)
    return kept + 1


@jit
def partials_sum(partials: int, count: int) -> Any:
    """Their sum, correctly rounded."""
    if count == 0:
        return 0.0
    n = count - 1
    high, low = load_f64(partials + 8 * n), 0.0
    while n > 0:
        x = high
        n -= 1
        y = load_f64(partials + 8 * n)
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            break
    # Half-way cases go by the sign of what is left.
    if n > 0:
        rest = load_f64(partials + 8 * (n - 1))
        if (low < 0.0 and rest < 0.0) or (low > 0.0 and rest > 0.0):
            y = low * 2.0
            x = high + y
            if y == x - high:
                high = x
    return high


@jit
def int_mean(total: int, n: int) -> Any:
    """Total / n, rounded once, also where ``total`` is beyond what a float holds."""
    high = np.float64(total)
    if abs(high) < 9007199254740992.0:
        return high / n
    if abs(high) >= 9223372036854774784.0:
        return high / n  # next to the end of int64: the float cannot be taken back
    q, q2 = pair_divide(high, np.float64(total - np.int64(high)), np.float64(n))
    return q + q2
