"""Sums of values and of their squares, in pairs of floats, for deviations: added in one order, whatever came when.

Pairs round, so the order counts. In a pane it is that of clocks, since only what is settled goes there; a window adds
up its panes, oldest first, and goes on with the records of the pane in progress where that leaves off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.exact import pair_add, pair_divide, pair_product, pair_sqrt, two_sum
from crossline.state.memory.access import jit, load_f64, load_i64, store_64, store_f64
from crossline.state.memory.header import item, word
from crossline.state.panes import layout as at
from crossline.state.panes.program import P_SQUARES_INT
from crossline.state.panes.reach import enters, next_place, number_at, pane_at, part_at, record_at, value_at

NOTHING = 1e-28  # of the sum of squares: as much as pairs may leave of values that are all the same
SQUARES_AT, BYTES = 16, 32  # the square's pair comes after the value's


@jit
def float_bits(h: int, whole: int) -> Any:
    """The bits of the float next to an integer."""
    store_f64(word(h, at.FIGURE) + 16, np.float64(whole))
    return load_i64(word(h, at.FIGURE) + 16)


@jit
def _add_pair(sum_at: int, x: float, x2: float) -> None:
    high, low = pair_add(load_f64(sum_at), load_f64(sum_at + 8), x, x2)
    store_f64(sum_at, high)
    store_f64(sum_at + 8, low)


@jit
def add_square(sums: int, kind: int, value: int) -> None:
    """Add the value at address ``value`` and its square to the sums at ``sums``."""
    if kind == P_SQUARES_INT:  # in halves, each of which a float holds
        bits = load_i64(value)
        x, x2 = two_sum(np.float64(bits >> 32) * 4294967296.0, np.float64(bits & 0xFFFFFFFF))
    else:
        x, x2 = load_f64(value), 0.0
    _add_pair(sums, x, x2)
    p, p2 = pair_product(x, x2, x, x2)
    _add_pair(sums + SQUARES_AT, p, p2)


@jit
def _merge(into: int, sums: int) -> None:
    _add_pair(into, load_f64(sums), load_f64(sums + 8))
    _add_pair(into + SQUARES_AT, load_f64(sums + SQUARES_AT), load_f64(sums + SQUARES_AT + 8))


@jit
def _copy(into: int, sums: int) -> None:
    for b in range(0, BYTES, 8):
        store_64(into + b, load_i64(sums + b))


@jit
def _clear(sums: int) -> None:
    for b in range(0, BYTES, 8):
        store_64(sums + b, 0)


@jit
def deviation(h: int, row: int, c: int, p: int, place: int, end: int, first: int, ends: int, extra: int, n: int) -> Any:
    """The sample deviation of part ``p`` over panes from ``place`` to ``end``, records from ``first`` to ``ends``.

    And of record ``extra`` (-1: none); ``n`` values, at least two. Infinite where squares leave the range of floats.
    """
    whole, current, number = word(h, at.DEV), word(h, at.DEV) + BYTES, -(2**62)
    kind, column, entry = item(h, at.PART_KIND, p), item(h, at.PART_COL, p), item(h, at.ENTRY, c)
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
        mine = load_i64(record) // word(h, at.RESOLUTION)
        if mine != number:
            _merge(whole, current)
            _clear(current)
            number = mine
        add_square(current, kind, value_at(record, column))
    _merge(whole, current)
    q, q2 = pair_product(load_f64(whole), load_f64(whole + 8), load_f64(whole), load_f64(whole + 8))
    q, q2 = pair_divide(q, q2, np.float64(n))
    total, total2 = pair_add(load_f64(whole + SQUARES_AT), load_f64(whole + SQUARES_AT + 8), -q, -q2)
    if total <= load_f64(whole + SQUARES_AT) * NOTHING:
        return 0.0
    total, total2 = pair_divide(total, total2, np.float64(n - 1))
    return pair_sqrt(total, total2) if math.isfinite(total + total2) else math.inf
