"""Sums of values and of their squares, in pairs of floats, for deviations: added in one order, whatever came when.

Pairs round, so the order counts. In a pane it is that of clocks, since only what is settled goes there; a window adds
up its panes, oldest first, and goes on with the records of the pane in progress where that leaves off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.double_double import pair_add, pair_divide, pair_product, pair_sqrt, two_sum
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import address, get, load, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import enters, next_place, number_at, pane_at, part_at, record_at, value_at
from crossline.state.panes.program import P_SQUARES_INT

NOTHING = 1e-28  # of the sum of squares: as much as pairs may leave of values that are all the same
SQUARES_AT = int(at.SUM_OF_SQUARES)  # the square's pair comes after the value's


@jit
def float_bits(h: int, whole: int) -> Any:
    """The bits of the float next to an integer."""
    figure = address(h, at.REAL)
    store(figure, at.REAL_VALUE, np.float64(whole))
    return load(figure, at.WHOLE_VALUE)


@jit
def _add_pair(sum_at: int, x: float, x2: float) -> None:
    high, low = pair_add(load(sum_at, at.PAIR), load(sum_at, at.PAIR_REST), x, x2)
    store(sum_at, at.PAIR, high)
    store(sum_at, at.PAIR_REST, low)


@inlined
def _squared(kind: int, value: int) -> Any:
    """The value at address ``value`` as a pair, and its square as one."""
    if kind == P_SQUARES_INT:  # in halves, each of which a float holds
        bits = load(value, at.WHOLE_VALUE)
        x, x2 = two_sum(np.float64(bits >> 32) * 4294967296.0, np.float64(bits & 0xFFFFFFFF))
    else:
        x, x2 = load(value, at.REAL_VALUE), 0.0
    p, p2 = pair_product(x, x2, x, x2)
    return x, x2, p, p2


@jit
def add_square(sums: int, kind: int, value: int) -> None:
    """Add the value at address ``value`` and its square to the sums at ``sums``."""
    x, x2, p, p2 = _squared(kind, value)
    _add_pair(sums, x, x2)
    _add_pair(sums + SQUARES_AT, p, p2)


@jit
def deviation(h: int, row: int, c: int, p: int, place: int, end: int, first: int, ends: int, extra: int, n: int) -> Any:
    """The sample deviation of part ``p`` over panes from ``place`` to ``end``, records from ``first`` to ``ends``.

    And of record ``extra`` (-1: none); ``n`` values, at least two. Infinite where squares leave the range of floats.

    ``v``, ``s``: pairs of values and of squares, of all panes before the one in progress, whose own are ``v_now``,
    ``s_now``. ``start``: where that pane begins, in ms.
    """
    kind, column, entry = get(h, at.PART_KIND, p), get(h, at.PART_COL, p), get(h, at.WINDOW_FILTER, c)
    v, v_rest, s, s_rest = 0.0, 0.0, 0.0, 0.0
    v_now, v_now_rest, s_now, s_now_rest = 0.0, 0.0, 0.0, 0.0
    resolution, start = get(h, at.RESOLUTION), 2**62
    while place != end:
        v, v_rest = _joined(v, v_rest, v_now, v_now_rest)
        s, s_rest = _joined(s, s_rest, s_now, s_now_rest)
        sums = part_at(h, pane_at(h, place), p)
        v_now, v_now_rest = load(sums, at.PAIR), load(sums, at.PAIR_REST)
        s_now, s_now_rest = load(sums + SQUARES_AT, at.PAIR), load(sums + SQUARES_AT, at.PAIR_REST)
        start = number_at(h, row, place) * resolution
        place = next_place(h, place)
    k = first
    while k < ends or extra >= 0:
        if k >= ends:
            k, ends, extra = extra, extra + 1, -1
        record = record_at(h, row, k)
        k += 1
        if not enters(h, record, entry):
            continue
        clock = load(record, at.RECORD_CLOCK)
        if clock < start or clock - start >= resolution:
            v, v_rest = _joined(v, v_rest, v_now, v_now_rest)
            s, s_rest = _joined(s, s_rest, s_now, s_now_rest)
            v_now, v_now_rest, s_now, s_now_rest = 0.0, 0.0, 0.0, 0.0
            start = clock // resolution * resolution
        x, x2, q, q2 = _squared(kind, value_at(record, column))
        v_now, v_now_rest = pair_add(v_now, v_now_rest, x, x2)
        s_now, s_now_rest = pair_add(s_now, s_now_rest, q, q2)
    v, v_rest = _joined(v, v_rest, v_now, v_now_rest)
    s, s_rest = _joined(s, s_rest, s_now, s_now_rest)
    return _deviation_of(v, v_rest, s, s_rest, n)


@inlined
def _joined(a: float, a2: float, b: float, b2: float) -> Any:
    """The sum of two pairs; mostly there is nothing to be added to yet, or nothing to add."""
    if a == 0.0 and a2 == 0.0:
        return b, b2
    if b == 0.0 and b2 == 0.0:
        return a, a2
    return pair_add(a, a2, b, b2)


@jit
def _deviation_of(v: float, v_rest: float, s: float, s_rest: float, n: int) -> Any:
    """That of ``n`` values by their sum and the sum of their squares."""
    q, q2 = pair_product(v, v_rest, v, v_rest)
    q, q2 = pair_divide(q, q2, np.float64(n))
    total, total2 = pair_add(s, s_rest, -q, -q2)
    if total <= s * NOTHING:
        return 0.0
    total, total2 = pair_divide(total, total2, np.float64(n - 1))
    return pair_sqrt(total, total2) if math.isfinite(total + total2) else math.inf
