"""What a window has, read at a record: from its running aggregates, or by a walk over its panes and records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.exact import two_sum
from crossline.state.arithmetic.wide import FLOAT_UNIT, LIMBS, wide_add_bits, wide_add_whole, wide_clear, wide_rounded
from crossline.state.memory.access import jit, load_f64, load_i32, load_i64, load_u32, store_64, store_f64
from crossline.state.memory.header import item, word
from crossline.state.panes import layout as at
from crossline.state.panes.aggregates.running import KNOWN, UP, add_float, add_wide, smaller
from crossline.state.panes.aggregates.sketches import (
    bucket_of,
    code_of,
    count_bucket,
    count_buckets,
    different,
    ranked,
    tally_of,
    union_code,
    union_sketch,
)
from crossline.state.panes.aggregates.squares import float_bits
from crossline.state.panes.heap import block
from crossline.state.panes.program import MILLION, P_BUCKETS_FLOAT, P_FIRST
from crossline.state.panes.reach import (
    acc_at,
    cursor_at,
    enters,
    next_place,
    pane_at,
    part_at,
    place_before,
    record_at,
    value_at,
)

WHOLE_MAX = 9007199254740992  # up to here floats have every integer


@jit
def panes_of(h: int, row: int, c: int) -> Any:
    """Where the panes of a window begin and end."""
    cursor = cursor_at(row, c)
    first = load_i64(cursor + at.P_FIRST)
    if item(h, at.EXACT, c) >= 0:
        return first, first
    return first, load_i64(cursor + at.P_END) if item(h, at.DELAY, c) else load_i64(row + at.END_AT)


@jit
def records_of(row: int, c: int) -> Any:
    """The numbers of the first record of a window, and after its last."""
    cursor = cursor_at(row, c)
    return load_i32(cursor + at.R_FIRST), load_i32(cursor + at.R_END)


@jit
def whole_sum_of(h: int, row: int, p: int, acc: int, extra: int) -> Any:
    """A sum of integers as low + up * 2^64, with the extra record where there is one. It is put at FIGURE too."""
    figure = word(h, at.FIGURE)
    store_64(figure, load_i64(acc))
    store_64(figure + 8, load_i64(acc + UP))
    if extra >= 0:
        add_wide(figure, load_i64(value_at(record_at(h, row, extra), item(h, at.PART_COL, p))), 0)
    return load_i64(figure), load_i64(figure + 8)


@jit
def whole_mean(h: int, low: int, up: int, n: int) -> Any:
    """(low + up * 2^64) / n, rounded once."""
    if up == 0 and -WHOLE_MAX <= low <= WHOLE_MAX:
        return np.float64(low) / n
    wide_clear(word(h, at.WIDE))
    wide_add_whole(word(h, at.WIDE), low, up)
    return wide_rounded(word(h, at.WIDE), 0, n)


@jit
def _anew(h: int, row: int, c: int, p: int, acc: int) -> None:
    """Make the pair at ``acc`` anew: what it did not hold may have left the window."""
    store_f64(acc, 0.0)
    store_f64(acc + UP, 0.0)
    place, end = panes_of(h, row, c)
    while place != end:
        part = part_at(h, pane_at(h, place), p)
        add_float(acc, load_f64(part))
        add_float(acc, load_f64(part + 8))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, item(h, at.ENTRY, c)):
            add_float(acc, load_f64(value_at(record, item(h, at.PART_COL, p))))


@jit
def wide_sum_of(h: int, row: int, c: int, p: int, extra: int, n: int) -> Any:
    """The sum of floats over ``n``, rounded once."""
    wide = word(h, at.WIDE)
    wide_clear(wide)
    place, end = panes_of(h, row, c)
    while place != end:
        part = part_at(h, pane_at(h, place), p)
        if math.isnan(load_f64(part)):
            mine = block(h, load_i64(part + 8))
            for limb in range(0, 8 * LIMBS, 8):
                store_64(wide + limb, load_i64(wide + limb) + load_i64(mine + limb))
        else:
            wide_add_bits(wide, load_i64(part))
            wide_add_bits(wide, load_i64(part + 8))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, item(h, at.ENTRY, c)):
            wide_add_bits(wide, load_i64(value_at(record, item(h, at.PART_COL, p))))
    if extra >= 0:
        wide_add_bits(wide, load_i64(value_at(record_at(h, row, extra), item(h, at.PART_COL, p))))
    return wide_rounded(wide, FLOAT_UNIT, n)


@jit
def float_sum_of(h: int, row: int, c: int, p: int, acc: int, extra: int) -> Any:
    """A sum of floats, rounded once."""
    if math.isnan(load_f64(acc)):
        _anew(h, row, c, p, acc)
    high, low = load_f64(acc), load_f64(acc + UP)
    if math.isnan(high):
        return wide_sum_of(h, row, c, p, extra, 1)
    if extra >= 0:
        t, error = two_sum(high, load_f64(value_at(record_at(h, row, extra), item(h, at.PART_COL, p))))
        u, lost = two_sum(low, error)
        return t + u if lost == 0.0 else wide_sum_of(h, row, c, p, extra, 1)
    return high


@jit
def extreme_of(h: int, row: int, c: int, p: int, acc: int) -> None:
    """Look the least or greatest value up, where it is not known; the window is not empty."""
    if load_i64(acc + UP) == KNOWN:
        return
    kind, entry, column = item(h, at.PART_KIND, p), item(h, at.ENTRY, c), item(h, at.PART_COL, p)
    some = False
    place, end = panes_of(h, row, c)
    while place != end:
        pane = pane_at(h, place)
        if load_i32(pane + item(h, at.COUNT_PART, c)) and (not some or smaller(kind, part_at(h, pane, p), acc)):
            store_64(acc, load_i64(part_at(h, pane, p)))
            some = True
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, entry) and (not some or smaller(kind, value_at(record, column), acc)):
            store_64(acc, load_i64(value_at(record, column)))
            some = True
    store_64(acc + UP, KNOWN)


@jit
def first_value_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """Address of the first value of a window that is not empty."""
    place, end = panes_of(h, row, c)
    while place != end:
        pane = pane_at(h, place)
        if load_i32(pane + item(h, at.COUNT_PART, c)):
            return part_at(h, pane, p)
        place = next_place(h, place)
    k, ends = records_of(row, c)
    while k < ends and not enters(h, record_at(h, row, k), item(h, at.ENTRY, c)):
        k += 1
    return value_at(record_at(h, row, k if k < ends else extra), item(h, at.PART_COL, p))


@jit
def last_value_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """Address of the last value of a window that is not empty; of its clock, where the part is of clocks."""
    column = item(h, at.PART_COL, p)
    first, k = records_of(row, c)
    while k > first and not enters(h, record_at(h, row, k - 1), item(h, at.ENTRY, c)):
        k -= 1
    if extra >= 0 or k > first:
        record = record_at(h, row, extra if extra >= 0 else k - 1)
        return record if column < 0 else value_at(record, column)
    _, place = panes_of(h, row, c)
    while True:
        place = place_before(h, place)
        pane = pane_at(h, place)
        if load_i32(pane + item(h, at.COUNT_PART, c)):
            return part_at(h, pane, p)


@jit
def streak_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """How many of the latest records of the window, one after the other, are in the other entry too."""
    n, entry, other = 0, item(h, at.ENTRY, c), item(h, at.PART_COL, p)
    if extra >= 0:
        if not enters(h, record_at(h, row, extra), other):
            return n
        n = 1
    first, k = records_of(row, c)
    while k > first:
        k -= 1
        record = record_at(h, row, k)
        if enters(h, record, entry):
            if not enters(h, record, other):
                return n
            n += 1
    start, place = panes_of(h, row, c)
    while place != start:
        place = place_before(h, place)
        pane = pane_at(h, place)
        mine = load_i32(part_at(h, pane, p))
        n += mine
        if mine < load_i32(pane + item(h, at.COUNT_PART, c)):
            return n
    return n


@jit
def different_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """How many different values there are."""
    n, column = 0, item(h, at.PART_COL, p)
    place, end = panes_of(h, row, c)
    while place != end:
        n = union_sketch(h, n, load_u32(part_at(h, pane_at(h, place), p)))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, item(h, at.ENTRY, c)):
            n = union_code(h, n, code_of(load_i64(value_at(record, column))))
    if extra >= 0:
        n = union_code(h, n, code_of(load_i64(value_at(record_at(h, row, extra), column))))
    return different(h, n)


@jit
def _bucket(h: int, record: int, p: int) -> Any:
    bits = load_i64(value_at(record, item(h, at.PART_COL, p)))
    return bucket_of(bits if item(h, at.PART_KIND, p) == P_BUCKETS_FLOAT else float_bits(h, bits))


@jit
def quantile_of(h: int, row: int, c: int, p: int, extra: int, millionths: int, n: int) -> Any:
    """The value that as many of the ``n`` values as the rank says, and no fewer, are at most."""
    place, end = panes_of(h, row, c)
    while place != end:
        count_buckets(h, load_u32(part_at(h, pane_at(h, place), p)))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, item(h, at.ENTRY, c)):
            count_bucket(h, _bucket(h, record, p), 1)
    if extra >= 0:
        count_bucket(h, _bucket(h, record_at(h, row, extra), p), 1)
    return ranked(h, max(1, (n * millionths + MILLION - 1) // MILLION))


@jit
def value_of(h: int, row: int, c: int, p: int, a: int, extra: int, n: int) -> Any:
    """Address of the value that part ``p``, of running aggregate ``a`` or -1, leads to; the window is not empty."""
    kind = item(h, at.PART_KIND, p)
    if a < 0:
        return first_value_of(h, row, c, p, extra) if kind == P_FIRST else last_value_of(h, row, c, p, extra)
    acc = acc_at(h, row, a)
    if extra < 0:
        extreme_of(h, row, c, p, acc)
        return acc
    value = value_at(record_at(h, row, extra), item(h, at.PART_COL, p))
    if n == 1:
        return value
    extreme_of(h, row, c, p, acc)
    return value if smaller(kind, value, acc) else acc


@jit
def count_values(h: int, row: int, c: int, p: int, extra: int) -> None:
    """Count how often each value comes."""
    column = item(h, at.PART_COL, p)
    place, end = panes_of(h, row, c)
    while place != end:
        count_buckets(h, load_u32(part_at(h, pane_at(h, place), p)))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, item(h, at.ENTRY, c)):
            count_bucket(h, tally_of(load_i64(value_at(record, column))), 1)
    if extra >= 0:
        count_bucket(h, tally_of(load_i64(value_at(record_at(h, row, extra), column))), 1)
