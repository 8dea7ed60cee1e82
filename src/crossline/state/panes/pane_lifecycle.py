"""Records come to their keys, in order of clocks; those that are settled go into panes; panes go."""

from __future__ import annotations

import math
from typing import Any

from crossline.state.arithmetic.double_double import two_sum
from crossline.state.arithmetic.superaccumulator import LIMBS, wide_add_bits, wide_clear
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import (
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
from crossline.state.panes.aggregates.running import smaller
from crossline.state.panes.aggregates.sketches import add_bucket, add_code, bucket_of, code_of, drop, tally_of
from crossline.state.panes.aggregates.squares import add_square, float_bits
from crossline.state.panes.heap import block, fitting, give, room, take, units_of
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
    SKETCHED,
)
from crossline.state.panes.rolling_window import pane_goes, panes_gone, record_came, record_goes

AT_A_STEP = 32  # records that go into panes when one comes
SKETCH_UNITS = 1024  # more than the largest sketch of different values takes
_WITHIN = 2**31


@jit
def step_room(h: int, row: int, more: int) -> Any:
    """Whether a step at the slot at ``row`` has room, and for ``more`` units besides."""
    sketches = get(h, at.SKETCHES)
    need = more + get(h, at.STEP_UNITS) + 3 * units_of(h, load(row, at.RAW_CLASS))
    if sketches != 0:
        need += 2 * AT_A_STEP * sketches * max(SKETCH_UNITS, get(h, at.N_LARGEST))
    return room(h, need)


@inlined
def put_record(h: int, row: int, clock_ms: int) -> Any:
    """A place for a record among those of the slot at ``row``: its number. Its clock is written, nothing else is."""
    n, head, width = load(row, at.RAW_N), load(row, at.RAW_HEAD), get(h, at.ROW_BYTES)
    handle = load(row, at.RAW)
    if handle == 0:
        size = fitting(h, (2 * width) // at.UNIT)
        store(row, at.RAW, take(h, size))
        store(row, at.RAW_CLASS, size)
        store(row, at.RAW_HEAD, 0)
    elif (head + n + 1) * width > units_of(h, load(row, at.RAW_CLASS)) * at.UNIT:
        _make_way(h, row, n, head, width)
    i = n
    while i > 0 and load(record_at(h, row, i - 1), at.RECORD_CLOCK) > clock_ms:
        i -= 1
    for k in range(n, i, -1):
        target, source = record_at(h, row, k), record_at(h, row, k - 1)
        for b in range(0, width, 8):
            store(target + b, at.EIGHT_BYTES, load(source + b, at.EIGHT_BYTES))
    store(row, at.RAW_N, n + 1)
    put(h, at.N_RECORDS, get(h, at.N_RECORDS) + 1)
    store(record_at(h, row, i), at.RECORD_CLOCK, clock_ms)
    return i


@jit
def _make_way(h: int, row: int, n: int, head: int, width: int) -> None:
    """Move the records to the beginning of their block, or of a larger one where they fill most of it."""
    handle, size = load(row, at.RAW), load(row, at.RAW_CLASS)
    made, to = handle, size
    if head < n:
        to = size + 1
        while (n + 1) * width > units_of(h, to) * at.UNIT:
            to += 1
        made = take(h, to)
    source, target = block(h, handle) + head * width, block(h, made)
    for b in range(0, n * width, 8):
        store(target + b, at.EIGHT_BYTES, load(source + b, at.EIGHT_BYTES))
    if made != handle:
        give(h, handle, size)
    store(row, at.RAW, made)
    store(row, at.RAW_CLASS, to)
    store(row, at.RAW_HEAD, 0)


@jit
def came(h: int, row: int, i: int) -> None:
    """Record ``i``, now written, may be in windows that reach beyond it."""
    if i + 1 < load(row, at.RAW_N):
        record_came(h, row, i)


@jit
def settle(h: int, row: int, most: int) -> None:
    """Put up to ``most`` records of the slot at ``row`` that are settled into panes."""
    while most > 0 and load(row, at.RAW_N) > 0 and load(record_at(h, row, 0), at.RECORD_CLOCK) <= get(h, at.FOLD_TO):
        _settle_one(h, row)
        most -= 1


@jit
def _settle_one(h: int, row: int) -> None:
    record, before = record_at(h, row, 0), load(row, at.END_AT)
    number = load(record, at.RECORD_CLOCK) // get(h, at.RESOLUTION)
    kept = (number + 1) * get(h, at.RESOLUTION) - 1 > get(h, at.DROP_TO)
    if kept and before != load(row, at.FIRST_AT) and number - load(row, at.BASE) >= _WITHIN:
        while load(row, at.END_AT) != load(row, at.FIRST_AT):
            drop_pane(h, row)  # no window is so wide
        before = 0
    fresh = -1
    if kept:  # what is not has come so late that no window has its pane any more
        place = _pane_for(h, row, number)
        if place < 0:
            place = fresh = _new_pane(h, row, number)
        _keep(h, pane_at(h, place), record)
    record_goes(h, row, before, fresh, kept)
    n = load(row, at.RAW_N) - 1
    store(row, at.RAW_N, n)
    store(row, at.RAW_HEAD, load(row, at.RAW_HEAD) + 1)
    put(h, at.N_RECORDS, get(h, at.N_RECORDS) - 1)
    if n == 0:
        give(h, load(row, at.RAW), load(row, at.RAW_CLASS))
        store(row, at.RAW, 0)
        store(row, at.RAW_CLASS, 0)


@jit
def _pane_for(h: int, row: int, number: int) -> Any:
    """The place of the pane of ``number``, -1 where it is to be made after all others.

    For a record that came later than anything is kept for, and has none, the nearest one after it.
    """
    first, place, found = load(row, at.FIRST_AT), load(row, at.END_AT), -1
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
    place = load(row, at.END_AT)
    if place == 0 or (place & IN_CHUNK) == get(h, at.CHUNK_PANES):
        chunk = take(h, get(h, at.CHUNK_CLASS))
        store(block(h, chunk), at.CHUNK_BEFORE, place >> PLACE_BITS)
        store(block(h, chunk), at.CHUNK_AFTER, 0)
        if place == 0:
            store(row, at.FIRST_AT, chunk << PLACE_BITS)
            store(row, at.BASE, number)
        else:
            store(block(h, place >> PLACE_BITS), at.CHUNK_AFTER, chunk)
        place = chunk << PLACE_BITS
    pane = pane_at(h, place)
    store(pane, at.PANE_NUMBER, number - load(row, at.BASE))
    for b in range(4, get(h, at.PANE_BYTES), 4):
        store(pane + b, at.COUNTED, 0)
    store(row, at.END_AT, place + 1)
    put(h, at.N_PANES, get(h, at.N_PANES) + 1)
    return place


@jit
def _keep(h: int, pane: int, record: int) -> None:
    """Count a record into its pane."""
    for p in range(get(h, at.PARTS)):
        kind = get(h, at.PART_KIND, p)
        if kind != P_COUNT and enters(h, record, get(h, at.PART_FILTER, p)):
            _keep_part(h, kind, pane, p, record)
    for p in range(get(h, at.PARTS)):
        if get(h, at.PART_KIND, p) == P_COUNT and enters(h, record, get(h, at.PART_FILTER, p)):
            part = part_at(h, pane, p)
            store(part, at.COUNTED, load(part, at.COUNTED) + 1)


@jit
def _keep_part(h: int, kind: int, pane: int, p: int, record: int) -> None:
    part, column = part_at(h, pane, p), get(h, at.PART_COL, p)
    value = value_at(record, column)
    if kind == P_SUM_INT:
        _keep_whole(part, load(value, at.WHOLE_VALUE))
    elif kind == P_SUM_FLOAT:
        _keep_float(h, part, load(value, at.WHOLE_VALUE))
    elif kind == P_CLOCK:
        store(part, at.WHOLE_VALUE, load(record, at.RECORD_CLOCK))
    elif kind == P_STREAK:
        store(part, at.COUNTED, load(part, at.COUNTED) + 1 if enters(h, record, column) else 0)
    elif kind in (P_SQUARES_INT, P_SQUARES_FLOAT):
        add_square(part, kind, value)
    elif kind == P_CODES:
        store(part, at.SKETCH, add_code(h, load(part, at.SKETCH), code_of(load(value, at.WHOLE_VALUE))))
    elif kind == P_TALLY:
        store(part, at.SKETCH, add_bucket(h, load(part, at.SKETCH), tally_of(load(value, at.WHOLE_VALUE))))
    elif kind in (P_BUCKETS_INT, P_BUCKETS_FLOAT):
        bits = load(value, at.WHOLE_VALUE) if kind == P_BUCKETS_FLOAT else float_bits(h, load(value, at.WHOLE_VALUE))
        store(part, at.SKETCH, add_bucket(h, load(part, at.SKETCH), bucket_of(bits)))
    else:
        count = load(pane + get(h, at.PART_COUNT, p), at.COUNTED)
        if count == 0 or kind == P_LAST or (kind != P_FIRST and smaller(kind, value, part)):
            store(part, at.WHOLE_VALUE, load(value, at.WHOLE_VALUE))


@jit
def _keep_whole(part: int, x: int) -> None:
    """Add to a sum of 96 bits."""
    low = load(part, at.SUM_LOW)
    total = low + x
    store(part, at.SUM_LOW, total)
    if (low ^ total) & (x ^ total) < 0:
        store(part, at.SUM_UP, load(part, at.SUM_UP) + (1 if x > 0 else -1))


@jit
def _keep_float(h: int, part: int, bits: int) -> None:
    """Add to a pair of floats; where it does not hold the sum, to a wide number, whose block stands in its place."""
    high, low = load(part, at.PAIR), load(part, at.PAIR_REST)
    if not math.isnan(high):
        put(h, at.WHOLE, bits)
        t, error = two_sum(high, load(address(h, at.FIGURE), at.REAL_VALUE))
        u, lost = two_sum(low, error)
        if lost == 0.0:
            total = t + u
            store(part, at.PAIR, total)
            store(part, at.PAIR_REST, u - (total - t))
            return
        wide = take(h, wide_size(h))
        wide_clear(block(h, wide))
        wide_add_bits(block(h, wide), load(part, at.PAIR_BITS))
        wide_add_bits(block(h, wide), load(part, at.WIDE_BLOCK))
        store(part, at.PAIR, math.nan)
        store(part, at.WIDE_BLOCK, wide)
    wide_add_bits(block(h, load(part, at.WIDE_BLOCK)), bits)


@jit
def wide_size(h: int) -> Any:
    """Which size of block a wide number is."""
    return fitting(h, LIMBS)


@jit
def drop_pane(h: int, row: int) -> None:
    """Drop the first pane of the slot at ``row``; there is one."""
    place = load(row, at.FIRST_AT)
    after = next_place(h, place)
    pane_goes(h, row, place, after)
    pane, chunk = pane_at(h, place), place >> PLACE_BITS
    for p in range(get(h, at.PARTS)):
        part, kind = part_at(h, pane, p), get(h, at.PART_KIND, p)
        if kind in SKETCHED:
            drop(h, load(part, at.SKETCH))
        elif kind == P_SUM_FLOAT and math.isnan(load(part, at.PAIR)):
            give(h, load(part, at.WIDE_BLOCK), wide_size(h))
    put(h, at.N_PANES, get(h, at.N_PANES) - 1)
    if after == load(row, at.END_AT):
        give(h, chunk, get(h, at.CHUNK_CLASS))
        store(row, at.FIRST_AT, 0)
        store(row, at.END_AT, 0)
        panes_gone(h, row)
        return
    if after >> PLACE_BITS != chunk:
        give(h, chunk, get(h, at.CHUNK_CLASS))
        store(block(h, after >> PLACE_BITS), at.CHUNK_BEFORE, 0)
    store(row, at.FIRST_AT, after)


@jit
def drop_old(h: int, row: int) -> None:
    """Drop the panes of the slot at ``row`` that are in no window any more."""
    resolution, to = get(h, at.RESOLUTION), get(h, at.DROP_TO)
    while load(row, at.FIRST_AT) != load(row, at.END_AT):
        if (number_at(h, row, load(row, at.FIRST_AT)) + 1) * resolution - 1 > to:
            return
        drop_pane(h, row)
