"""Records come to their keys, in order of clocks; those that are settled go into panes; panes go."""

from __future__ import annotations

import math
from typing import Any

from crossline.state.arithmetic.exact import two_sum
from crossline.state.arithmetic.wide import LIMBS, wide_add_bits, wide_clear
from crossline.state.memory.access import (
    inlined,
    jit,
    load_f64,
    load_i32,
    load_i64,
    load_u32,
    store_32,
    store_64,
    store_f64,
)
from crossline.state.memory.header import item, tally, word
from crossline.state.panes import layout as at
from crossline.state.panes.aggregates.running import smaller
from crossline.state.panes.aggregates.sketches import add_bucket, add_code, bucket_of, code_of, drop, tally_of
from crossline.state.panes.aggregates.squares import add_square, float_bits
from crossline.state.panes.heap import block, fitting, give, room, take, units_of
from crossline.state.panes.moving import pane_goes, panes_gone, record_came, record_goes
from crossline.state.panes.program import (
    P_BUCKETS_FLOAT,
    P_BUCKETS_INT,
    P_CLOCK,
    P_CODES,
    P_COUNT,
    P_FIRST,
    P_LAST,
    P_SQUARES_FLOAT,
    P_SQUARES_INT,
    P_STREAK,
    P_SUM_FLOAT,
    P_SUM_INT,
    P_TALLY,
)
from crossline.state.panes.reach import (
    AFTER,
    BEFORE,
    IN_CHUNK,
    PLACE_BITS,
    enters,
    next_place,
    number_at,
    pane_at,
    part_at,
    place_before,
    record_at,
    value_at,
)

AT_A_STEP = 32  # records that go into panes when one comes
SKETCH_UNITS = 1024  # more than the largest sketch of different values takes
_WITHIN = 2**31


@jit
def step_room(h: int, row: int, more: int) -> Any:
    """Whether a step at the slot at ``row`` has room, and for ``more`` units besides."""
    sketches = word(h, at.SKETCHES)
    need = more + word(h, at.STEP_UNITS) + 3 * units_of(h, load_u32(row + at.RAW_CLASS))
    if sketches != 0:
        need += 2 * AT_A_STEP * sketches * max(SKETCH_UNITS, tally(h, at.N_LARGEST))
    return room(h, need)


@inlined
def put_record(h: int, row: int, clock_ms: int) -> Any:
    """A place for a record among those of the slot at ``row``: its number. Its clock is written, nothing else is."""
    n, head, width = load_u32(row + at.RAW_N), load_u32(row + at.RAW_HEAD), word(h, at.ROW_BYTES)
    handle = load_u32(row + at.RAW)
    if handle == 0:
        size = fitting(h, (2 * width) // at.UNIT)
        store_32(row + at.RAW, take(h, size))
        store_32(row + at.RAW_CLASS, size)
        store_32(row + at.RAW_HEAD, 0)
    elif (head + n + 1) * width > units_of(h, load_u32(row + at.RAW_CLASS)) * at.UNIT:
        _make_way(h, row, n, head, width)
    i = n
    while i > 0 and load_i64(record_at(h, row, i - 1)) > clock_ms:
        i -= 1
    for k in range(n, i, -1):
        target, source = record_at(h, row, k), record_at(h, row, k - 1)
        for b in range(0, width, 8):
            store_64(target + b, load_i64(source + b))
    store_32(row + at.RAW_N, n + 1)
    store_64(h + 8 * at.N_RECORDS, tally(h, at.N_RECORDS) + 1)
    store_64(record_at(h, row, i), clock_ms)
    return i


@jit
def _make_way(h: int, row: int, n: int, head: int, width: int) -> None:
    """Move the records to the beginning of their block, or of a larger one where they fill most of it."""
    handle, size = load_u32(row + at.RAW), load_u32(row + at.RAW_CLASS)
    made, to = handle, size
    if head < n:
        to = size + 1
        while (n + 1) * width > units_of(h, to) * at.UNIT:
            to += 1
        made = take(h, to)
    source, target = block(h, handle) + head * width, block(h, made)
    for b in range(0, n * width, 8):
        store_64(target + b, load_i64(source + b))
    if made != handle:
        give(h, handle, size)
    store_32(row + at.RAW, made)
    store_32(row + at.RAW_CLASS, to)
    store_32(row + at.RAW_HEAD, 0)


@jit
def came(h: int, row: int, i: int) -> None:
    """Record ``i``, now written, may be in windows that reach beyond it."""
    if i + 1 < load_u32(row + at.RAW_N):
        record_came(h, row, i)


@jit
def settle(h: int, row: int, most: int) -> None:
    """Put up to ``most`` records of the slot at ``row`` that are settled into panes."""
    while most > 0 and load_u32(row + at.RAW_N) > 0 and load_i64(record_at(h, row, 0)) <= word(h, at.FOLD_TO):
        _settle_one(h, row)
        most -= 1


@jit
def _settle_one(h: int, row: int) -> None:
    record, before = record_at(h, row, 0), load_i64(row + at.END_AT)
    number = load_i64(record) // word(h, at.RESOLUTION)
    kept = (number + 1) * word(h, at.RESOLUTION) - 1 > word(h, at.DROP_TO)
    if kept and before != load_i64(row + at.FIRST_AT) and number - load_i64(row + at.BASE) >= _WITHIN:
        while load_i64(row + at.END_AT) != load_i64(row + at.FIRST_AT):
            drop_pane(h, row)  # no window is so wide
        before = 0
    fresh = -1
    if kept:  # what is not has come so late that no window has its pane any more
        place = _pane_for(h, row, number)
        if place < 0:
            place = fresh = _new_pane(h, row, number)
        _keep(h, pane_at(h, place), record)
    record_goes(h, row, before, fresh, kept)
    n = load_u32(row + at.RAW_N) - 1
    store_32(row + at.RAW_N, n)
    store_32(row + at.RAW_HEAD, load_u32(row + at.RAW_HEAD) + 1)
    store_64(h + 8 * at.N_RECORDS, tally(h, at.N_RECORDS) - 1)
    if n == 0:
        give(h, load_u32(row + at.RAW), load_u32(row + at.RAW_CLASS))
        store_32(row + at.RAW, 0)
        store_32(row + at.RAW_CLASS, 0)


@jit
def _pane_for(h: int, row: int, number: int) -> Any:
    """The place of the pane of ``number``, -1 where it is to be made after all others.

    For a record that came later than anything is kept for, and has none, the nearest one after it.
    """
    first, place, found = load_i64(row + at.FIRST_AT), load_i64(row + at.END_AT), -1
    while place != first:
        place = place_before(h, place)
        known = number_at(h, row, place)
        if known < number:
            return found
        found = place
        if known == number:
            return place
    return found


@jit
def _new_pane(h: int, row: int, number: int) -> Any:
    """A pane after all others: its place."""
    place = load_i64(row + at.END_AT)
    if place == 0 or (place & IN_CHUNK) == word(h, at.CHUNK_PANES):
        chunk = take(h, word(h, at.CHUNK_CLASS))
        store_32(block(h, chunk) + BEFORE, place >> PLACE_BITS)
        store_32(block(h, chunk) + AFTER, 0)
        if place == 0:
            store_64(row + at.FIRST_AT, chunk << PLACE_BITS)
            store_64(row + at.BASE, number)
        else:
            store_32(block(h, place >> PLACE_BITS) + AFTER, chunk)
        place = chunk << PLACE_BITS
    pane = pane_at(h, place)
    store_32(pane, number - load_i64(row + at.BASE))
    for b in range(4, word(h, at.PANE_BYTES), 4):
        store_32(pane + b, 0)
    store_64(row + at.END_AT, place + 1)
    store_64(h + 8 * at.N_PANES, tally(h, at.N_PANES) + 1)
    return place


@jit
def _keep(h: int, pane: int, record: int) -> None:
    """Count a record into its pane."""
    for p in range(word(h, at.PARTS)):
        kind = item(h, at.PART_KIND, p)
        if kind != P_COUNT and enters(h, record, item(h, at.PART_ENTRY, p)):
            _keep_part(h, kind, pane, p, record)
    for p in range(word(h, at.PARTS)):
        if item(h, at.PART_KIND, p) == P_COUNT and enters(h, record, item(h, at.PART_ENTRY, p)):
            part = part_at(h, pane, p)
            store_32(part, load_i32(part) + 1)


@jit
def _keep_part(h: int, kind: int, pane: int, p: int, record: int) -> None:
    part, column = part_at(h, pane, p), item(h, at.PART_COL, p)
    value = value_at(record, column)
    if kind == P_SUM_INT:
        _keep_whole(part, load_i64(value))
    elif kind == P_SUM_FLOAT:
        _keep_float(h, part, load_i64(value))
    elif kind == P_CLOCK:
        store_64(part, load_i64(record))
    elif kind == P_STREAK:
        store_32(part, load_i32(part) + 1 if enters(h, record, column) else 0)
    elif kind in (P_SQUARES_INT, P_SQUARES_FLOAT):
        add_square(part, kind, value)
    elif kind == P_CODES:
        store_32(part, add_code(h, load_u32(part), code_of(load_i64(value))))
    elif kind == P_TALLY:
        store_32(part, add_bucket(h, load_u32(part), tally_of(load_i64(value))))
    elif kind in (P_BUCKETS_INT, P_BUCKETS_FLOAT):
        bits = load_i64(value) if kind == P_BUCKETS_FLOAT else float_bits(h, load_i64(value))
        store_32(part, add_bucket(h, load_u32(part), bucket_of(bits)))
    else:
        count = load_i32(pane + item(h, at.PART_COUNT, p))
        if count == 0 or kind == P_LAST or (kind != P_FIRST and smaller(kind, value, part)):
            store_64(part, load_i64(value))


@jit
def _keep_whole(part: int, x: int) -> None:
    """Add to a sum of 96 bits."""
    low = load_i64(part)
    total = low + x
    store_64(part, total)
    if (low ^ total) & (x ^ total) < 0:
        store_32(part + 8, load_i32(part + 8) + (1 if x > 0 else -1))


@jit
def _keep_float(h: int, part: int, bits: int) -> None:
    """Add to a pair of floats; where it does not hold the sum, to a wide number, whose block stands in its place."""
    high, low = load_f64(part), load_f64(part + 8)
    if not math.isnan(high):
        store_64(word(h, at.FIGURE), bits)
        t, error = two_sum(high, load_f64(word(h, at.FIGURE)))
        u, lost = two_sum(low, error)
        if lost == 0.0:
            total = t + u
            store_f64(part, total)
            store_f64(part + 8, u - (total - t))
            return
        wide = take(h, wide_size(h))
        wide_clear(block(h, wide))
        wide_add_bits(block(h, wide), load_i64(part))
        wide_add_bits(block(h, wide), load_i64(part + 8))
        store_f64(part, math.nan)
        store_64(part + 8, wide)
    wide_add_bits(block(h, load_i64(part + 8)), bits)


@jit
def wide_size(h: int) -> Any:
    """Which size of block a wide number is."""
    return fitting(h, LIMBS)


@jit
def drop_pane(h: int, row: int) -> None:
    """Drop the first pane of the slot at ``row``; there is one."""
    place = load_i64(row + at.FIRST_AT)
    after = next_place(h, place)
    pane_goes(h, row, place, after)
    pane, chunk = pane_at(h, place), place >> PLACE_BITS
    for p in range(word(h, at.PARTS)):
        part, kind = part_at(h, pane, p), item(h, at.PART_KIND, p)
        if kind in (P_CODES, P_BUCKETS_INT, P_BUCKETS_FLOAT, P_TALLY):
            drop(h, load_u32(part))
        elif kind == P_SUM_FLOAT and math.isnan(load_f64(part)):
            give(h, load_i64(part + 8), wide_size(h))
    store_64(h + 8 * at.N_PANES, tally(h, at.N_PANES) - 1)
    if after == load_i64(row + at.END_AT):
        give(h, chunk, word(h, at.CHUNK_CLASS))
        store_64(row + at.FIRST_AT, 0)
        store_64(row + at.END_AT, 0)
        panes_gone(h, row)
        return
    if after >> PLACE_BITS != chunk:
        give(h, chunk, word(h, at.CHUNK_CLASS))
        store_32(block(h, after >> PLACE_BITS) + BEFORE, 0)
    store_64(row + at.FIRST_AT, after)


@jit
def drop_old(h: int, row: int) -> None:
    """Drop the panes of the slot at ``row`` that are in no window any more."""
    resolution, to = word(h, at.RESOLUTION), word(h, at.DROP_TO)
    while load_i64(row + at.FIRST_AT) != load_i64(row + at.END_AT):
        if (number_at(h, row, load_i64(row + at.FIRST_AT)) + 1) * resolution - 1 > to:
            return
        drop_pane(h, row)
