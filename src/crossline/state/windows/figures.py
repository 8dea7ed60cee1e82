"""What a window keeps, read at a record: from accumulators, or by a scan of the window where only that is exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.exact import pair_add, pair_divide, pair_product, pair_sqrt, two_sum
from crossline.state.arithmetic.sums import add_deviation, add_float, add_whole, clear_deviation, pair_of
from crossline.state.arithmetic.wide import FLOAT_UNIT, wide_add_bits, wide_add_whole, wide_clear, wide_rounded
from crossline.state.memory.access import (
    inlined,
    jit,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    store_8,
    store_64,
    store_f64,
)
from crossline.state.memory.header import (
    after,
    before,
    deviation_at,
    distinct_at,
    enters,
    item,
    precedes,
    rough_at,
    same_at,
    sum_f_at,
    sum_i_at,
    value_f,
    value_i,
    window_at,
    word,
)
from crossline.state.memory.layout import (
    COUNT_OF,
    DC_LINK,
    DEVIATION_BYTES,
    ENTRY,
    ERROR,
    FIGURE,
    FIRST_OF,
    GROUP_ACC,
    GROUP_COL,
    LAST_OF,
    PAIR,
    PAIR_REST,
    PT_CHAIN,
    PT_KIND,
    SAME_BEFORE,
    SCRATCH,
    SD_COL,
    SF_COL,
    SI_COL,
    SQUARES,
    SUM_LOW,
    SUM_UP,
)
from crossline.state.records.lists import beats
from crossline.state.windows.program import FIRST, LAST
from crossline.state.windows.rolling import pointed

WHOLE_MAX = 9007199254740992  # up to here floats have every integer


@jit
def scan_sum(h: int, slot: int, c: int, col: int, extra: int, n: int) -> Any:
    """The sum of the window of cursor ``c``, and of record ``extra`` (-1: none), divided by ``n`` and rounded once."""
    wide, entry = word(h, SCRATCH), item(h, ENTRY, c)
    wide_clear(wide)
    r, last = load_i32(window_at(h, slot, c) + FIRST_OF), load_i32(window_at(h, slot, c) + LAST_OF)
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
    wide = word(h, SCRATCH)
    wide_clear(wide)
    wide_add_whole(wide, low, high)
    return wide_rounded(wide, 0, n)


@jit
def _scan_pairs(h: int, slot: int, c: int, col: int, extra: int, scale: float, mean: float, mean2: float) -> Any:
    """Over the window, in pairs of floats: the sum of values times ``scale``, or of squares, and the greatest value.

    The squares are those of the distances from the mean; where that is not a number, the sum is wanted.
    """
    entry, at, squares = item(h, ENTRY, c), window_at(h, slot, c), not math.isnan(mean)
    total, total2, greatest = 0.0, 0.0, 0.0
    r, last, pending = load_i32(at + FIRST_OF), load_i32(at + LAST_OF), extra
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
    """Sum the window's floats anew: what made the sum rough may have left."""
    store_f64(at + PAIR, 0.0)
    store_f64(at + PAIR_REST, 0.0)
    store_8(rough, 0)
    r, last = load_i32(window_at(h, slot, c) + FIRST_OF), load_i32(window_at(h, slot, c) + LAST_OF)
    while r >= 0:
        if enters(h, r, item(h, ENTRY, c)):
            add_float(at, rough, value_f(h, r, col))
        r = after(h, r) if r != last else -1


@jit
def spread(h: int, slot: int, k: int, extra: int, n: int) -> Any:
    """Standard deviation ``k`` from its rolling sums, and how far it may be off (inf: only a scan can tell)."""
    total, total2, off = _squares(h, slot, k, extra, n)
    most = (total + total2 + off) / (n - 1)
    if not (0.0 <= most < math.inf):
        return 0.0, math.inf
    spread = math.sqrt(most)
    return spread, spread * (1.0 + 1e-9) - math.sqrt(max((total + total2 - off) / (n - 1), 0.0)) * (1.0 - 1e-9)


@jit
def _squares(h: int, slot: int, k: int, extra: int, n: int) -> Any:
    """Of standard deviation ``k`` the sum of squared distances from the mean, as a pair, and how far it may be off."""
    at, room = deviation_at(h, slot, k), word(h, SCRATCH)
    for b in range(0, DEVIATION_BYTES, 8):
        store_f64(room + b, load_f64(at + b))
    if extra >= 0:
        add_deviation(h, room, extra, item(h, SD_COL, k), 1.0)
    high, low, squares, squares2 = (
        load_f64(room),
        load_f64(room + 8),
        load_f64(room + SQUARES),
        load_f64(room + SQUARES + 8),
    )
    p, p2 = pair_product(high, low, high, low)
    p, p2 = pair_divide(p, p2, np.float64(n))
    total, total2 = pair_add(squares, squares2, -p, -p2)
    return total, total2, load_f64(room + ERROR) * 1.01 + (abs(squares) + abs(p)) * 1e-29 + 1e-290


@jit
def _deviation_anew(h: int, slot: int, c: int, k: int) -> None:
    """Make the rolling sums of deviation ``k`` anew: what blurred them may have left."""
    at = deviation_at(h, slot, k)
    clear_deviation(at)
    r, last = load_i32(window_at(h, slot, c) + FIRST_OF), load_i32(window_at(h, slot, c) + LAST_OF)
    while r >= 0:
        if enters(h, r, item(h, ENTRY, c)):
            add_deviation(h, at, r, item(h, SD_COL, k), 1.0)
        r = after(h, r) if r != last else -1


@jit
def settle(h: int, slot: int, c: int, g: int, extra: int) -> None:
    """Replace the deviation at FIGURE, which may be off, by that of a scan."""
    at, k = word(h, FIGURE), item(h, GROUP_ACC, g)
    n = load_i32(window_at(h, slot, c) + COUNT_OF) + (1 if extra >= 0 else 0)
    if load_f64(at + 16) == math.inf:
        _deviation_anew(h, slot, c, k)
    store_f64(at + 8, scan_stddev(h, slot, c, item(h, GROUP_COL, g), extra, n))
    store_f64(at + 16, 0.0)


@jit
def sum_float(h: int, slot: int, c: int, k: int, extra: int) -> Any:
    """Sum of floats ``k``, rounded once."""
    at, rough, col = (
        sum_f_at(h, slot, k),
        rough_at(h, slot, k),
        item(h, SF_COL, k),
    )
    if load_u8(rough):
        _sum_anew(h, slot, c, col, at, rough)
    high, low = load_f64(at + PAIR), load_f64(at + PAIR_REST)
    if load_u8(rough):
        return scan_sum(h, slot, c, col, extra, 1)
    if extra >= 0:
        t, error = two_sum(high, value_f(h, extra, col))
        u, lost = two_sum(low, error)
        return t + u if lost == 0.0 else scan_sum(h, slot, c, col, extra, 1)
    return high


@jit
def sum_int(h: int, slot: int, k: int, extra: int) -> None:
    """Put sum of integers ``k`` at FIGURE."""
    at, sum_at = word(h, FIGURE), sum_i_at(h, slot, k)
    low, high = load_i64(sum_at + SUM_LOW), load_i64(sum_at + SUM_UP)
    if extra >= 0:
        room = word(h, SCRATCH)
        store_64(room + SUM_LOW, low)
        store_64(room + SUM_UP, high)
        add_whole(room, value_i(h, extra, item(h, SI_COL, k)))
        low, high = load_i64(room + SUM_LOW), load_i64(room + SUM_UP)
    store_64(at, low)
    store_64(at + 24, high)


@jit
def different(h: int, slot: int, c: int, k: int, extra: int) -> Any:
    """How many different values distinct count ``k`` has."""
    count = load_i32(distinct_at(h, slot, k))
    if extra < 0:
        return count
    first, last = load_i32(window_at(h, slot, c) + FIRST_OF), load_i32(window_at(h, slot, c) + LAST_OF)
    if first < 0:
        return count + 1
    r = load_i32(same_at(h, extra, item(h, DC_LINK, k)) + SAME_BEFORE)
    while r >= 0 and precedes(h, last, r):
        r = load_i32(same_at(h, r, item(h, DC_LINK, k)) + SAME_BEFORE)
    return count + (1 if r < 0 or precedes(h, r, first) else 0)


@jit
def record_of(h: int, slot: int, c: int, k: int, extra: int) -> Any:
    """The record whose value is the minimum, maximum, first or last; the window has one."""
    if load_i32(window_at(h, slot, c) + COUNT_OF) == 0:
        return extra
    r, kind = pointed(h, slot, c, k), item(h, PT_KIND, k)
    if extra >= 0 and (kind == LAST or (kind != FIRST and beats(h, item(h, PT_CHAIN, k), extra, r))):
        return extra
    return r


@inlined
def count_figure(h: int, slot: int, c: int, extra: int) -> Any:
    """As ``figure``, for the number of records in the window, which is always defined."""
    store_64(word(h, FIGURE), load_i32(window_at(h, slot, c) + COUNT_OF) + (1 if extra >= 0 else 0))
    store_f64(word(h, FIGURE) + 16, 0.0)
    return True


@jit
def streak(h: int, slot: int, c: int, entry: int, extra: int) -> Any:
    """How many of the latest entries of the window, one after the other, are in ``entry`` too."""
    n = 0
    if extra >= 0:
        if not enters(h, extra, entry):
            return n
        n = 1
    first, r = load_i32(window_at(h, slot, c) + FIRST_OF), load_i32(window_at(h, slot, c) + LAST_OF)
    if first < 0:
        return n
    while True:
        if enters(h, r, item(h, ENTRY, c)):
            if not enters(h, r, entry):
                return n
            n += 1
        if r == first:
            return n
        r = before(h, r)


@jit
def settled_spread(h: int, slot: int, c: int, g: int, extra: int) -> None:
    """Replace the deviation at FIGURE by the nearest float: that of its rolling sums where they leave no doubt."""
    if load_f64(word(h, FIGURE) + 16) == 0.0:
        return
    n = load_i32(window_at(h, slot, c) + COUNT_OF) + (1 if extra >= 0 else 0)
    total, total2, off = _squares(h, slot, item(h, GROUP_ACC, g), extra, n)
    if off < math.inf:
        low, low2 = pair_add(total, total2, -off, 0.0)
        high, high2 = pair_add(total, total2, off, 0.0)
        low, low2 = pair_divide(low, low2, np.float64(n - 1))
        high, high2 = pair_divide(high, high2, np.float64(n - 1))
        if low > 0.0 and pair_sqrt(low, low2) == pair_sqrt(high, high2):
            store_f64(word(h, FIGURE) + 8, pair_sqrt(low, low2))
            store_f64(word(h, FIGURE) + 16, 0.0)
            return
    settle(h, slot, c, g, extra)
