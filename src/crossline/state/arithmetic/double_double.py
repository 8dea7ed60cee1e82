"""Arithmetic in pairs of floats: twice the digits, where a sum of squares would lose them."""

from __future__ import annotations

import math
from typing import Any

from crossline.state.memory.access import jit


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
    root, rest = pair_root(a, a2)
    return root + rest


@jit
def pair_root(a: float, a2: float) -> Any:
    """The square root of a + a2, which is above 0, as a pair whose parts are not added up."""
    r = math.sqrt(a)
    p, e = two_product(r, r)
    return r, ((a - p) - e + a2) / (2.0 * r)
