"""What a window keeps, read at a record: from accumulators, or by a scan of the window where only that is exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.double_double import (
    pair_add,
    pair_divide,
    pair_product,
    pair_root,
    pair_sqrt,
    two_product,
    two_sum,
)
from crossline.state.arithmetic.rolling_sums import add_deviation, add_float, add_whole, clear_deviation, pair_of
from crossline.state.arithmetic.superaccumulator import (
    FLOAT_UNIT,
    wide_add_bits,
    wide_add_whole,
    wide_clear,
    wide_rounded,
)
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import (
    after,
    before,
    deviation_at,
    enters,
    precedes,
    rough_at,
    sum_f_at,
    sum_i_at,
    value_f,
    value_i,
    window_at,
)
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.memory.layout import (
    AGGREGATE_ACC,
    AGGREGATE_COL,
    COLUMN_FLOAT,
    COUNT_OF,
    DC_LINK,
    DEVIATION_BYTES,
    DISTINCT,
    ERROR,
    FIRST_OF,
    LAST_OF,
    OFF,
    PAIR,
    PAIR_REST,
    PT_CHAIN,
    PT_KIND,
    REAL,
    ROUGH,
    SAME_BEFORE,
    SCRATCH,
    SD_COL,
    SF_COL,
    SI_COL,
    SQUARES,
    SQUARES_REST,
    SUM,
    SUM_LOW,
    SUM_REST,
    SUM_UP,
    UP_REST,
    WHOLE,
    WINDOW_FILTER,
)
from crossline.state.records.hash_tables import copy_bytes
from crossline.state.records.lists import beats
from crossline.state.windows.program import FIRST, LAST
from crossline.state.windows.rolling_window import pointed

WHOLE_MAX = 9007199254740992  # up to here floats have every integer


@jit
def scan_sum(h: int, slot: int, c: int, col: int, extra: int, n: int) -> Any:
    """The sum of the window of cursor ``c``, and of record ``extra`` (-1: none), divided by ``n`` and rounded once."""
    wide, entry = address(h, SCRATCH), get(h, WINDOW_FILTER, c)
    wide_clear(wide)
    r, last = get(h, FIRST_OF, slot, c), get(h, LAST_OF, slot, c)
    while r >= 0:
        if enters(h, r, entry):
            wide_add_bits(wide, value_i(h, r, col))
        r = after(h, r) if r != last else -1
    if extra >= 0:
        wide_add_bits(wide, value_i(h, extra, col))
    return wide_rounded(wide, FLOAT_UNIT, n)


@jit
def int_mean(h: int, low: int, high: int, n: int) -> Any:
    """(low + high * 2^64) / n, rounded once."""
    if high == 0 and -WHOLE_MAX <= low <= WHOLE_MAX:
        return np.float64(low) / n
    wide = address(h, SCRATCH)
    wide_clear(wide)
    wide_add_whole(wide, low, high)
    return wide_rounded(wide, 0, n)


@jit
def _scan_pairs(h: int, slot: int, c: int, col: int, extra: int, scale: float, mean: float, mean2: float) -> Any:
    """Over the window, in pairs of floats: the sum of values times ``scale``, or of squares, and the greatest value.

    The squares are those of the distances from the mean; where that is not a number, the sum is wanted.
    """
    entry, at, squares = get(h, WINDOW_FILTER, c), window_at(h, slot, c), not math.isnan(mean)
    total, total2, greatest = 0.0, 0.0, 0.0
    r, last, pending = load(at, FIRST_OF), load(at, LAST_OF), extra
    while r >= 0 or pending >= 0:
        if r < 0:
            r, last, pending = pending, pending, -1
        if enters(h, r, entry):
            x, x2 = pair_of(h, r, col)
            greatest = max(greatest, abs(x))
            x, x2 = x * scale, x2 * scale
            if squares:
                x, x2 = pair_add(x, x2, -mean, -mean2)
                x, x2 = pair_product(x, x2, x, x2)
            total, total2 = pair_add(total, total2, x, x2)
        r = after(h, r) if r != last else -1
    return total, total2, greatest


@jit
def scan_stddev(h: int, slot: int, c: int, col: int, extra: int, n: int) -> Any:
    """Sample standard deviation in two passes over the window, in pairs of floats, rounded at the end."""
    scale = 1.0
    total, total2, greatest = _scan_pairs(h, slot, c, col, extra, scale, math.nan, 0.0)
    if not (1e-100 < greatest < 1e100):  # squares, and sums, would leave the range of floats
        scale = math.ldexp(1.0, min(-math.frexp(greatest)[1], 1000))
        total, total2, _ = _scan_pairs(h, slot, c, col, extra, scale, math.nan, 0.0)
    mean, mean2 = pair_divide(total, total2, np.float64(n))
    total, total2, _ = _scan_pairs(h, slot, c, col, extra, scale, mean, mean2)
    total, total2 = pair_divide(total, total2, np.float64(n - 1))
    return pair_sqrt(total, total2) / scale


@jit
def _sum_anew(h: int, slot: int, c: int, col: int, at: int, rough: int) -> None:
    """Recompute the window's sum of floats: the values that made it inexact may have left."""
    store(at, PAIR, 0.0)
    store(at, PAIR_REST, 0.0)
    store(rough, ROUGH, 0)
    r, last = get(h, FIRST_OF, slot, c), get(h, LAST_OF, slot, c)
    while r >= 0:
        if enters(h, r, get(h, WINDOW_FILTER, c)):
            add_float(at, rough, value_f(h, r, col))
        r = after(h, r) if r != last else -1


@jit
def spread(h: int, slot: int, k: int, extra: int, n: int) -> Any:
    """Standard deviation ``k`` from the leading parts of its rolling sums, and how far it may be off.

    That far: most thresholds are farther away. ``sharpened_spread`` is for those that are not.
    """
    room = _with_extra(h, slot, k, extra)
    square, squares = load(room, SUM) / n * load(room, SUM), load(room, SQUARES)
    return _root_of(squares - square, load(room, ERROR) * 1.01 + (abs(squares) + square) * 1e-15 + 1e-290, n)


@jit
def sharpened_spread(h: int, slot: int, c: int, g: int, extra: int) -> None:
    """Replace the deviation at FIGURE by that of its rolling sums as a whole."""
    n = get(h, COUNT_OF, slot, c) + (1 if extra >= 0 else 0)
    total, total2, off = _squares(h, slot, get(h, AGGREGATE_ACC, g), extra, n)
    deviation, off = _root_of(total + total2, off + abs(total) * 1e-15, n)
    put(h, REAL, deviation)
    put(h, OFF, off)


@inlined
def _root_of(total: float, off: float, n: int) -> Any:
    """The deviation where ``total`` is the sum of squared distances, or ``off`` away from it; how far it may be off.

    inf: only a scan can tell.
    """
    most = (total + off) / (n - 1)
    if not (0.0 <= most < math.inf):
        return 0.0, math.inf
    root = math.sqrt(most)
    if off < total * 1e-9:  # then the lesser bound is above this, which takes no other root
        return root, root * 4e-9
    return root, root * (1.0 + 1e-9) - math.sqrt(max((total - off) / (n - 1), 0.0)) * (1.0 - 1e-9)


@inlined
def _with_extra(h: int, slot: int, k: int, extra: int) -> Any:
    """Where the sums of deviation ``k`` stand, with record ``extra`` (-1: none)."""
    if extra < 0:
        return deviation_at(h, slot, k)
    room = address(h, SCRATCH)
    copy_bytes(deviation_at(h, slot, k), room, DEVIATION_BYTES)
    add_deviation(h, room, extra, get(h, SD_COL, k), 1.0)
    return room


@jit
def _squares(h: int, slot: int, k: int, extra: int, n: int) -> Any:
    """Of standard deviation ``k`` the sum of squared distances from the mean, as a pair, and how far it may be off."""
    room = _with_extra(h, slot, k, extra)
    high, low, squares, squares2 = (
        load(room, SUM),
        load(room, SUM_REST),
        load(room, SQUARES),
        load(room, SQUARES_REST),
    )
    p, p2 = pair_product(high, low, high, low)
    p, p2 = pair_divide(p, p2, np.float64(n))
    total, total2 = pair_add(squares, squares2, -p, -p2)
    return total, total2, load(room, ERROR) * 1.01 + (abs(squares) + abs(p)) * 1e-29 + 1e-290


@jit
def _deviation_anew(h: int, slot: int, c: int, k: int) -> None:
    """Recompute the rolling sums of deviation ``k``: the values that made them inexact may have left."""
    at = deviation_at(h, slot, k)
    clear_deviation(at)
    r, last = get(h, FIRST_OF, slot, c), get(h, LAST_OF, slot, c)
    while r >= 0:
        if enters(h, r, get(h, WINDOW_FILTER, c)):
            add_deviation(h, at, r, get(h, SD_COL, k), 1.0)
        r = after(h, r) if r != last else -1


@jit
def settle(h: int, slot: int, c: int, g: int, extra: int) -> None:
    """Replace the deviation at FIGURE, which may be off, by that of a scan."""
    k = get(h, AGGREGATE_ACC, g)
    n = get(h, COUNT_OF, slot, c) + (1 if extra >= 0 else 0)
    if get(h, OFF) == math.inf:
        _deviation_anew(h, slot, c, k)
    put(h, REAL, scan_stddev(h, slot, c, get(h, AGGREGATE_COL, g), extra, n))
    put(h, OFF, 0.0)


@jit
def sum_float(h: int, slot: int, c: int, k: int, extra: int) -> Any:
    """Sum of floats ``k``, rounded once."""
    at, rough, col = (
        sum_f_at(h, slot, k),
        rough_at(h, slot, k),
        get(h, SF_COL, k),
    )
    if load(rough, ROUGH):
        _sum_anew(h, slot, c, col, at, rough)
    high, low = load(at, PAIR), load(at, PAIR_REST)
    if load(rough, ROUGH):
        return scan_sum(h, slot, c, col, extra, 1)
    if extra >= 0:
        t, error = two_sum(high, value_f(h, extra, col))
        u, lost = two_sum(low, error)
        return t + u if lost == 0.0 else scan_sum(h, slot, c, col, extra, 1)
    return high


@jit
def sum_int(h: int, slot: int, k: int, extra: int) -> None:
    """Put sum of integers ``k`` at FIGURE."""
    sum_at = sum_i_at(h, slot, k)
    low, high = load(sum_at, SUM_LOW), load(sum_at, SUM_UP)
    if extra >= 0:
        room = address(h, SCRATCH)
        store(room, SUM_LOW, low)
        store(room, SUM_UP, high)
        add_whole(room, value_i(h, extra, get(h, SI_COL, k)))
        low, high = load(room, SUM_LOW), load(room, SUM_UP)
    put(h, WHOLE, low)
    put(h, UP_REST, high)


@jit
def different(h: int, slot: int, c: int, k: int, extra: int) -> Any:
    """How many different values distinct count ``k`` has."""
    count = get(h, DISTINCT, slot, k)
    if extra < 0:
        return count
    first, last = get(h, FIRST_OF, slot, c), get(h, LAST_OF, slot, c)
    if first < 0:
        return count + 1
    r = get(h, SAME_BEFORE, extra, get(h, DC_LINK, k))
    while r >= 0 and precedes(h, last, r):
        r = get(h, SAME_BEFORE, r, get(h, DC_LINK, k))
    return count + (1 if r < 0 or precedes(h, r, first) else 0)


@jit
def record_of(h: int, slot: int, c: int, k: int, extra: int) -> Any:
    """The record whose value is the minimum, maximum, first or last; the window has one."""
    if get(h, COUNT_OF, slot, c) == 0:
        return extra
    r, kind = pointed(h, slot, c, k), get(h, PT_KIND, k)
    if extra >= 0 and (kind == LAST or (kind != FIRST and beats(h, get(h, PT_CHAIN, k), extra, r))):
        return extra
    return r


@inlined
def count_figure(h: int, slot: int, c: int, extra: int) -> Any:
    """As ``figure``, for the number of records in the window, which is always defined."""
    put(h, WHOLE, get(h, COUNT_OF, slot, c) + (1 if extra >= 0 else 0))
    put(h, OFF, 0.0)
    return True


@jit
def streak(h: int, slot: int, c: int, entry: int, extra: int) -> Any:
    """How many of the latest entries of the window, one after the other, are in ``entry`` too."""
    n = 0
    if extra >= 0:
        if not enters(h, extra, entry):
            return n
        n = 1
    first, r = get(h, FIRST_OF, slot, c), get(h, LAST_OF, slot, c)
    if first < 0:
        return n
    while True:
        if enters(h, r, get(h, WINDOW_FILTER, c)):
            if not enters(h, r, entry):
                return n
            n += 1
        if r == first:
            return n
        r = before(h, r)


@jit
def whole_spread(room: int, n: int) -> Any:
    """The deviation of ``n`` integers whose sums stand at ``room``, rounded once; -1 where they are too large for it.

    Of integers in the range in which floats have each, the sum of squared distances times n is one, too.
    """
    total, squares, pairs = load(room, SUM), load(room, SQUARES), np.float64(n) * np.float64(n - 1)
    if load(room, SUM_REST) != 0.0 or load(room, SQUARES_REST) != 0.0 or load(room, ERROR) != 0.0:
        return -1.0
    above, square = np.float64(n) * squares, total * total
    if not (above <= WHOLE_MAX and square <= WHOLE_MAX and pairs <= WHOLE_MAX):
        return -1.0
    distances = above - square
    if distances == 0.0:
        return 0.0
    root = math.sqrt(distances / pairs)
    p, e = two_product(root, root)
    q, f = two_product(p, pairs)
    rest = ((distances - q) - f - e * pairs) / (2.0 * root * pairs)
    doubt = root * 1e-29
    if root + (rest - doubt) != root + (rest + doubt):
        return -1.0
    return root + rest


@jit
def settled_spread(h: int, slot: int, c: int, g: int, extra: int) -> None:
    """Replace the deviation at FIGURE by the nearest float: that of its rolling sums where they leave no doubt."""
    if get(h, OFF) == 0.0:
        return
    n = get(h, COUNT_OF, slot, c) + (1 if extra >= 0 else 0)
    if get(h, COLUMN_FLOAT, get(h, AGGREGATE_COL, g)) == 0:
        root = whole_spread(_with_extra(h, slot, get(h, AGGREGATE_ACC, g), extra), n)
        if root >= 0.0:
            put(h, REAL, root)
            put(h, OFF, 0.0)
            return
    total, total2, off = _squares(h, slot, get(h, AGGREGATE_ACC, g), extra, n)
    if off < total * 1e-17:
        square, square2 = pair_divide(total, total2, np.float64(n - 1))
        root, rest = pair_root(square, square2)
        doubt = off / (n - 1) / root + root * 1e-29
        if root + (rest - doubt) == root + (rest + doubt):
            put(h, REAL, root + rest)
            put(h, OFF, 0.0)
            return
    put(h, OFF, off)
    settle(h, slot, c, g, extra)
