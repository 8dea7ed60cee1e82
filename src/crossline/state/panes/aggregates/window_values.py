"""What a window has, read at a record: from its running aggregates, or by a walk over its panes and records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossline.state.arithmetic.double_double import two_sum
from crossline.state.arithmetic.superaccumulator import (
    FLOAT_UNIT,
    LIMBS,
    wide_add_bits,
    wide_add_whole,
    wide_clear,
    wide_rounded,
)
from crossline.state.memory.access import jit
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import (
    acc_at,
    enters,
    next_place,
    pane_at,
    part_at,
    place_before,
    record_at,
    value_at,
    window_at,
)
from crossline.state.panes.aggregates.bucket_counts import (
    FEW_MAX,
    count_bucket,
    count_buckets,
    put_few,
    put_few_of,
    ranked,
    ranked_few,
)
from crossline.state.panes.aggregates.running import KNOWN, add_float, add_wide, smaller
from crossline.state.panes.aggregates.sketches import (
    bucket_of,
    code_of,
    different,
    tally_of,
    union_code,
    union_sketch,
)
from crossline.state.panes.aggregates.squares import float_bits
from crossline.state.panes.heap import block
from crossline.state.panes.program import MILLION, P_BUCKETS_FLOAT, P_FIRST

WHOLE_MAX = 9007199254740992  # up to here floats have every integer


@jit
def panes_of(h: int, row: int, c: int) -> Any:
    """Where the panes of a window begin and end."""
    cursor = window_at(row, c)
    first = load(cursor, at.P_FIRST)
    if get(h, at.EXACT, c) >= 0:
        return first, first
    return first, load(cursor, at.P_END) if get(h, at.DELAY, c) else load(row, at.END_AT)


@jit
def records_of(row: int, c: int) -> Any:
    """The numbers of the first record of a window, and after its last."""
    cursor = window_at(row, c)
    return load(cursor, at.R_FIRST), load(cursor, at.R_END)


@jit
def whole_sum_of(h: int, row: int, p: int, acc: int, extra: int) -> Any:
    """A sum of integers as low + up * 2^64, with the extra record where there is one. It is put at FIGURE too."""
    figure = address(h, at.FIGURE)
    put(h, at.WHOLE, load(acc, at.ACC))
    put(h, at.WHOLE_UP, load(acc, at.ACC_UP))
    if extra >= 0:
        add_wide(figure, load(value_at(record_at(h, row, extra), get(h, at.PART_COL, p)), at.WHOLE_VALUE), 0)
    return get(h, at.WHOLE), get(h, at.WHOLE_UP)


@jit
def whole_mean(h: int, low: int, up: int, n: int) -> Any:
    """(low + up * 2^64) / n, rounded once."""
    if up == 0 and -WHOLE_MAX <= low <= WHOLE_MAX:
        return np.float64(low) / n
    wide_clear(address(h, at.WIDE))
    wide_add_whole(address(h, at.WIDE), low, up)
    return wide_rounded(address(h, at.WIDE), 0, n)


@jit
def _anew(h: int, row: int, c: int, p: int, acc: int) -> None:
    """Recompute the pair at ``acc``: the value that it could not hold may have left the window."""
    store(acc, at.PAIR, 0.0)
    store(acc, at.PAIR_REST, 0.0)
    place, end = panes_of(h, row, c)
    while place != end:
        part = part_at(h, pane_at(h, place), p)
        add_float(acc, load(part, at.PAIR))
        add_float(acc, load(part, at.PAIR_REST))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, get(h, at.WINDOW_FILTER, c)):
            add_float(acc, load(value_at(record, get(h, at.PART_COL, p)), at.REAL_VALUE))


@jit
def wide_sum_of(h: int, row: int, c: int, p: int, extra: int, n: int) -> Any:
    """The sum of floats over ``n``, rounded once."""
    wide = address(h, at.WIDE)
    wide_clear(wide)
    place, end = panes_of(h, row, c)
    while place != end:
        part = part_at(h, pane_at(h, place), p)
        if math.isnan(load(part, at.PAIR)):
            mine = block(h, load(part, at.WIDE_BLOCK))
            for limb in range(0, 8 * LIMBS, 8):
                store(wide + limb, at.LIMB, load(wide + limb, at.LIMB) + load(mine + limb, at.LIMB))
        else:
            wide_add_bits(wide, load(part, at.PAIR_BITS))
            wide_add_bits(wide, load(part, at.WIDE_BLOCK))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, get(h, at.WINDOW_FILTER, c)):
            wide_add_bits(wide, load(value_at(record, get(h, at.PART_COL, p)), at.WHOLE_VALUE))
    if extra >= 0:
        wide_add_bits(wide, load(value_at(record_at(h, row, extra), get(h, at.PART_COL, p)), at.WHOLE_VALUE))
    return wide_rounded(wide, FLOAT_UNIT, n)


@jit
def float_sum_of(h: int, row: int, c: int, p: int, acc: int, extra: int) -> Any:
    """A sum of floats, rounded once."""
    if math.isnan(load(acc, at.PAIR)):
        _anew(h, row, c, p, acc)
    high, low = load(acc, at.PAIR), load(acc, at.PAIR_REST)
    if math.isnan(high):
        return wide_sum_of(h, row, c, p, extra, 1)
    if extra >= 0:
        t, error = two_sum(high, load(value_at(record_at(h, row, extra), get(h, at.PART_COL, p)), at.REAL_VALUE))
        u, lost = two_sum(low, error)
        return t + u if lost == 0.0 else wide_sum_of(h, row, c, p, extra, 1)
    return high


@jit
def extreme_of(h: int, row: int, c: int, p: int, acc: int) -> None:
    """Look the least or greatest value up, where it is not known; the window is not empty."""
    if load(acc, at.ACC_UP) == KNOWN:
        return
    kind, entry, column = get(h, at.PART_KIND, p), get(h, at.WINDOW_FILTER, c), get(h, at.PART_COL, p)
    some = False
    place, end = panes_of(h, row, c)
    while place != end:
        pane = pane_at(h, place)
        if load(pane + get(h, at.COUNT_PART, c), at.COUNTED) and (not some or smaller(kind, part_at(h, pane, p), acc)):
            store(acc, at.ACC, load(part_at(h, pane, p), at.WHOLE_VALUE))
            some = True
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, entry) and (not some or smaller(kind, value_at(record, column), acc)):
            store(acc, at.ACC, load(value_at(record, column), at.WHOLE_VALUE))
            some = True
    store(acc, at.ACC_UP, KNOWN)


@jit
def first_value_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """Address of the first value of a window that is not empty."""
    place, end = panes_of(h, row, c)
    while place != end:
        pane = pane_at(h, place)
        if load(pane + get(h, at.COUNT_PART, c), at.COUNTED):
            return part_at(h, pane, p)
        place = next_place(h, place)
    k, ends = records_of(row, c)
    while k < ends and not enters(h, record_at(h, row, k), get(h, at.WINDOW_FILTER, c)):
        k += 1
    return value_at(record_at(h, row, k if k < ends else extra), get(h, at.PART_COL, p))


@jit
def last_value_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """Address of the last value of a window that is not empty; of its clock, where the part is of clocks."""
    column = get(h, at.PART_COL, p)
    first, k = records_of(row, c)
    while k > first and not enters(h, record_at(h, row, k - 1), get(h, at.WINDOW_FILTER, c)):
        k -= 1
    if extra >= 0 or k > first:
        record = record_at(h, row, extra if extra >= 0 else k - 1)
        return record if column < 0 else value_at(record, column)
    _, place = panes_of(h, row, c)
    while True:
        place = place_before(h, place)
        pane = pane_at(h, place)
        if load(pane + get(h, at.COUNT_PART, c), at.COUNTED):
            return part_at(h, pane, p)


@jit
def streak_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """How many of the latest records of the window, one after the other, are in the other entry too."""
    n, entry, other = 0, get(h, at.WINDOW_FILTER, c), get(h, at.PART_COL, p)
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
        mine = load(part_at(h, pane, p), at.COUNTED)
        n += mine
        if mine < load(pane + get(h, at.COUNT_PART, c), at.COUNTED):
            return n
    return n


@jit
def different_of(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """How many different values there are."""
    n, column = 0, get(h, at.PART_COL, p)
    place, end = panes_of(h, row, c)
    while place != end:
        n = union_sketch(h, n, load(part_at(h, pane_at(h, place), p), at.SKETCH))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, get(h, at.WINDOW_FILTER, c)):
            n = union_code(h, n, code_of(load(value_at(record, column), at.WHOLE_VALUE)))
    if extra >= 0:
        n = union_code(h, n, code_of(load(value_at(record_at(h, row, extra), column), at.WHOLE_VALUE)))
    return different(h, n)


@jit
def _bucket(h: int, record: int, p: int) -> Any:
    bits = load(value_at(record, get(h, at.PART_COL, p)), at.WHOLE_VALUE)
    return bucket_of(bits if get(h, at.PART_KIND, p) == P_BUCKETS_FLOAT else float_bits(h, bits))


@jit
def _few_items(h: int, row: int, c: int, p: int, extra: int) -> Any:
    """Put all items of a window in order: how many, more than FEW_MAX if they are too many for that."""
    n = 0
    place, end = panes_of(h, row, c)
    while place != end and n <= FEW_MAX:
        n = put_few_of(h, n, load(part_at(h, pane_at(h, place), p), at.SKETCH))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    if n + ends - first + 1 > FEW_MAX:
        return FEW_MAX + 1
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, get(h, at.WINDOW_FILTER, c)):
            put_few(h, n, _bucket(h, record, p), 1)
            n += 1
    if extra >= 0:
        put_few(h, n, _bucket(h, record_at(h, row, extra), p), 1)
        n += 1
    return n


@jit
def quantile_of(h: int, row: int, c: int, p: int, extra: int, millionths: int, n: int) -> Any:
    """The nearest-rank quantile: the least value such that ``rank`` of the ``n`` values are at most it."""
    rank = max(1, (n * millionths + MILLION - 1) // MILLION)
    items = _few_items(h, row, c, p, extra)
    if items <= FEW_MAX:
        return ranked_few(h, items, rank)
    place, end = panes_of(h, row, c)
    while place != end:
        count_buckets(h, load(part_at(h, pane_at(h, place), p), at.SKETCH))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, get(h, at.WINDOW_FILTER, c)):
            count_bucket(h, _bucket(h, record, p), 1)
    if extra >= 0:
        count_bucket(h, _bucket(h, record_at(h, row, extra), p), 1)
    return ranked(h, rank)


@jit
def value_of(h: int, row: int, c: int, p: int, a: int, extra: int, n: int) -> Any:
    """Address of the value that part ``p``, of running aggregate ``a`` or -1, leads to; the window is not empty."""
    kind = get(h, at.PART_KIND, p)
    if a < 0:
        return first_value_of(h, row, c, p, extra) if kind == P_FIRST else last_value_of(h, row, c, p, extra)
    acc = acc_at(h, row, a)
    if extra < 0:
        extreme_of(h, row, c, p, acc)
        return acc
    value = value_at(record_at(h, row, extra), get(h, at.PART_COL, p))
    if n == 1:
        return value
    extreme_of(h, row, c, p, acc)
    return value if smaller(kind, value, acc) else acc


@jit
def count_values(h: int, row: int, c: int, p: int, extra: int) -> None:
    """Count how often each value comes."""
    column = get(h, at.PART_COL, p)
    place, end = panes_of(h, row, c)
    while place != end:
        count_buckets(h, load(part_at(h, pane_at(h, place), p), at.SKETCH))
        place = next_place(h, place)
    first, ends = records_of(row, c)
    for k in range(first, ends):
        record = record_at(h, row, k)
        if enters(h, record, get(h, at.WINDOW_FILTER, c)):
            count_bucket(h, tally_of(load(value_at(record, column), at.WHOLE_VALUE)), 1)
    if extra >= 0:
        count_bucket(h, tally_of(load(value_at(record_at(h, row, extra), column), at.WHOLE_VALUE)), 1)
