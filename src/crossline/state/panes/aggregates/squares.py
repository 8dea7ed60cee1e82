"""Sums of values and of their squares, in pairs of floats, for deviations: added in one order, whatever came when.

Pairs round, so the order counts. In a pane it is that of clocks, since only what is settled goes there; a window adds
up its panes, oldest first, and goes on with the records of the pane in progress where that leaves off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.double_double import pair_add, pair_divide, pair_product, pair_sqrt, two_sum
from crossline.state.memory.access import jit
from crossline.state.memory.fields import address, get, load, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import enters, next_place, number_at, pane_at, part_at, record_at, value_at
from crossline.state.panes.program import P_SQUARES_INT

NOTHING = 1e-28  # of the sum of squares: as much as pairs may leave of values that are all the same
SQUARES_AT, BYTES = int(at.SUM_OF_SQUARES), at.SQUARES.bytes  # the square's pair comes after the value's


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


@jit
def add_square(sums: int, kind: int, value: int) -> None:
    """Add the value at address ``value`` and its square to the sums at ``sums``."""
    if kind == P_SQUARES_INT:  # in halves, each of which a float holds
        bits = load(value, at.WHOLE_VALUE)
        x, x2 = two_sum(np.float64(bits >> 32) * 4294967296.0, np.float64(bits & 0xFFFFFFFF))
    else:
        x, x2 = load(value, at.REAL_VALUE), 0.0
    _add_pair(sums, x, x2)
    p, p2 = pair_product(x, x2, x, x2)
    _add_pair(sums + SQUARES_AT, p, p2)


@jit
def _merge(into: int, sums: int) -> None:
    _add_pair(into, load(sums, at.PAIR), load(sums, at.PAIR_REST))
    squares = sums + SQUARES_AT
    _add_pair(into + SQUARES_AT, load(squares, at.PAIR), load(squares, at.PAIR_REST))


@jit
def _copy(into: int, sums: int) -> None:
    for b in range(0, BYTES, 8):
        store(into + b, at.EIGHT_BYTES, load(sums + b, at.EIGHT_BYTES))


@jit
def _clear(sums: int) -> None:
    for b in range(0, BYTES, 8):
        store(sums + b, at.EIGHT_BYTES, 0)


@jit
def deviation(h: int, row: int, c: int, p: int, place: int, end: int, first: int, ends: int, extra: int, n: int) -> Any:
    """The sample deviation of part ``p`` over panes from ``place`` to ``end``, records from ``first`` to ``ends``.

    And of record ``extra`` (-1: none); ``n`` values, at least two. Infinite where squares leave the range of floats.
    """
    whole, current, number = address(h, at.DEV), address(h, at.DEV) + BYTES, -(2**62)
    kind, column, entry = get(h, at.PART_KIND, p), get(h, at.PART_COL, p), get(h, at.WINDOW_FILTER, c)
    _clear(whole)
    _clear(current)
    while place != end:
        _merge(whole, current)
        pane = pane_at(h, place)
        _copy(current, part_at(h, pane, p))
        number = number_at(h, row, place)
        place = next_place(h, place)
    k = first
    while k < ends or extra >= 0:
        if k >= ends:
            k, ends, extra = extra, extra + 1, -1
        record = record_at(h, row, k)
        k += 1
        if not enters(h, record, entry):
            continue
        mine = load(record, at.RECORD_CLOCK) // get(h, at.RESOLUTION)
        if mine != number:
            _merge(whole, current)
            _clear(current)
            number = mine
        add_square(current, kind, value_at(record, column))
    _merge(whole, current)
    q, q2 = load(whole, at.PAIR), load(whole, at.PAIR_REST)
    q, q2 = pair_product(q, q2, q, q2)
    q, q2 = pair_divide(q, q2, np.float64(n))
    squares = load(whole + SQUARES_AT, at.PAIR)
    total, total2 = pair_add(squares, load(whole + SQUARES_AT, at.PAIR_REST), -q, -q2)
    if total <= squares * NOTHING:
        return 0.0
    total, total2 = pair_divide(total, total2, np.float64(n - 1))
    return pair_sqrt(total, total2) if math.isfinite(total + total2) else math.inf
