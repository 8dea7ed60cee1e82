"""A window that moves along its key's list: first record, last considered, count, and accumulators.

A window is the run of records from its first to its last considered; accumulators hold those of them that are
entries. It moves by steps of one record at either end, forwards for records in order and back for late ones, so a
step costs the same whatever the window's length, and a window that starts empty at the head of the list catches up
by itself.
"""

from __future__ import annotations

from typing import Any

from crossline.state.arithmetic.sums import (
    add_decayed,
    add_deviation,
    add_float,
    add_whole,
    clear_deviation,
    take_whole,
)
from crossline.state.memory.access import inlined, jit, load_i32, store_8, store_32, store_64, store_f64
from crossline.state.memory.header import (
    after,
    before,
    chain_at,
    clock,
    deviation_at,
    distinct_at,
    enters,
    item,
    pointer_at,
    precedes,
    rough_at,
    same_at,
    slot_row,
    sum_f_at,
    sum_i_at,
    value_f,
    value_i,
    window_at,
    word,
)
from crossline.state.memory.layout import (
    BEGINS,
    BELOW,
    COUNT_OF,
    CURSORS,
    DC_AT,
    DC_LINK,
    ENDS,
    ENTRY,
    FIRST_OF,
    HEAD,
    INCLUDE,
    LAST_OF,
    PAIR_REST,
    PLAIN,
    PT_AT,
    PT_CHAIN,
    PT_KIND,
    SAME_AFTER,
    SAME_BEFORE,
    SD_AT,
    SD_COL,
    SD_HALF,
    SF_AT,
    SF_COL,
    SI_AT,
    SI_COL,
    SUM_UP,
    UP,
)
from crossline.state.records.lists import beats
from crossline.state.windows.program import FIRST, LAST, MAX

UNKNOWN = -2  # a pointer that must be searched; -1 is one into an empty window


@jit
def _held(h: int, record: int, first: int, last: int) -> Any:
    """Whether the record (-1: none) is in the run from ``first`` (-1: empty run) to ``last``."""
    return record >= 0 and first >= 0 and not precedes(h, record, first) and not precedes(h, last, record)


@jit
def _only_one(h: int, k: int, r: int, first: int, last: int) -> Any:
    """Whether no other record from ``first`` to ``last`` has the value of ``r``, for distinct count ``k``."""
    at = same_at(h, r, item(h, DC_LINK, k))
    return not _held(h, load_i32(at + SAME_BEFORE), first, last) and not _held(
        h, load_i32(at + SAME_AFTER), first, last
    )


@inlined
def add(h: int, slot: int, c: int, r: int, first: int, last: int) -> None:
    """Take record ``r`` into cursor ``c``; ``first`` and ``last`` are the run without it."""
    if not enters(h, r, item(h, ENTRY, c)):
        return
    count_at = window_at(h, slot, c) + COUNT_OF
    store_32(count_at, load_i32(count_at) + 1)
    if item(h, PLAIN, c) == 0:
        _add_values(h, slot, c, r, first, last)


@jit
def _add_values(h: int, slot: int, c: int, r: int, first: int, last: int) -> None:
    """Take record ``r`` into the accumulators of cursor ``c``."""
    for k in range(item(h, SI_AT, c), item(h, SI_AT, c + 1)):
        add_whole(sum_i_at(h, slot, k), value_i(h, r, item(h, SI_COL, k)))
    for k in range(item(h, SF_AT, c), item(h, SF_AT, c + 1)):
        add_float(sum_f_at(h, slot, k), rough_at(h, slot, k), value_f(h, r, item(h, SF_COL, k)))
    for k in range(item(h, SD_AT, c), item(h, SD_AT, c + 1)):
        if item(h, SD_HALF, k):
            add_decayed(h, deviation_at(h, slot, k), r, item(h, SD_COL, k), item(h, SD_HALF, k), 1.0)
        else:
            add_deviation(h, deviation_at(h, slot, k), r, item(h, SD_COL, k), 1.0)
    for k in range(item(h, DC_AT, c), item(h, DC_AT, c + 1)):
        if _only_one(h, k, r, first, last):
            at = distinct_at(h, slot, k)
            store_32(at, load_i32(at) + 1)
    for k in range(item(h, PT_AT, c), item(h, PT_AT, c + 1)):
        _point(h, pointer_at(h, slot, k), k, r)


@jit
def _point(h: int, at: int, k: int, r: int) -> None:
    """Move pointer ``k``, at ``at``, to the added record ``r`` where that is the better one."""
    f, kind = load_i32(at), item(h, PT_KIND, k)
    if f == UNKNOWN:
        return
    if f < 0:
        better = True
    elif kind == FIRST:
        better = precedes(h, r, f)
    elif kind == LAST:
        better = precedes(h, f, r)
    elif precedes(h, f, r):
        better = not beats(h, item(h, PT_CHAIN, k), f, r)  # of equal values the later one, which stays longer
    else:
        better = beats(h, item(h, PT_CHAIN, k), r, f)
    if better:
        store_32(at, r)


@inlined
def remove(h: int, slot: int, c: int, r: int, first: int, last: int) -> None:
    """Take record ``r``, at either end of cursor ``c``'s run, out; ``first`` and ``last`` are the run without it."""
    if not enters(h, r, item(h, ENTRY, c)):
        return
    count_at = window_at(h, slot, c) + COUNT_OF
    left = load_i32(count_at) - 1
    store_32(count_at, left)
    if item(h, PLAIN, c) == 0:
        _remove_values(h, slot, c, r, first, last, left)


@jit
def _remove_values(h: int, slot: int, c: int, r: int, first: int, last: int, left: int) -> None:
    """Take record ``r`` out of the accumulators of cursor ``c``, in which ``left`` entries remain."""
    if left == 0:
        _clear(h, slot, c)
        return
    for k in range(item(h, SI_AT, c), item(h, SI_AT, c + 1)):
        take_whole(sum_i_at(h, slot, k), value_i(h, r, item(h, SI_COL, k)))
    for k in range(item(h, SF_AT, c), item(h, SF_AT, c + 1)):
        add_float(sum_f_at(h, slot, k), rough_at(h, slot, k), -value_f(h, r, item(h, SF_COL, k)))
    for k in range(item(h, SD_AT, c), item(h, SD_AT, c + 1)):
        if item(h, SD_HALF, k):
            add_decayed(h, deviation_at(h, slot, k), r, item(h, SD_COL, k), item(h, SD_HALF, k), -1.0)
        else:
            add_deviation(h, deviation_at(h, slot, k), r, item(h, SD_COL, k), -1.0)
    for k in range(item(h, DC_AT, c), item(h, DC_AT, c + 1)):
        if _only_one(h, k, r, first, last):
            at = distinct_at(h, slot, k)
            store_32(at, load_i32(at) - 1)
    for k in range(item(h, PT_AT, c), item(h, PT_AT, c + 1)):
        at = pointer_at(h, slot, k)
        if load_i32(at) == r:
            store_32(at, _next_point(h, k, c, r, last))


@jit
def _clear(h: int, slot: int, c: int) -> None:
    """The accumulators of an empty window: exactly nothing."""
    for k in range(item(h, SI_AT, c), item(h, SI_AT, c + 1)):
        store_64(sum_i_at(h, slot, k), 0)
        store_64(sum_i_at(h, slot, k) + SUM_UP, 0)
    for k in range(item(h, SF_AT, c), item(h, SF_AT, c + 1)):
        store_f64(sum_f_at(h, slot, k), 0.0)
        store_f64(sum_f_at(h, slot, k) + PAIR_REST, 0.0)
        store_8(rough_at(h, slot, k), 0)
    for k in range(item(h, SD_AT, c), item(h, SD_AT, c + 1)):
        clear_deviation(deviation_at(h, slot, k))
    for k in range(item(h, DC_AT, c), item(h, DC_AT, c + 1)):
        store_32(distinct_at(h, slot, k), 0)
    for k in range(item(h, PT_AT, c), item(h, PT_AT, c + 1)):
        store_32(pointer_at(h, slot, k), -1)


@jit
def _next_point(h: int, k: int, c: int, r: int, last: int) -> Any:
    """Where pointer ``k`` goes when its record ``r`` leaves a window in which other entries remain."""
    kind, entry = item(h, PT_KIND, k), item(h, ENTRY, c)
    if kind <= MAX:
        chain = item(h, PT_CHAIN, k)
        up = load_i32(chain_at(h, r, chain) + UP)
        if up >= 0 and load_i32(chain_at(h, up, chain) + BELOW) == r and not precedes(h, last, up):
            return up
        return UNKNOWN
    while True:
        r = after(h, r) if kind == FIRST else before(h, r)
        if enters(h, r, entry):
            return r


@jit
def pointed(h: int, slot: int, c: int, k: int) -> Any:
    """The record of pointer ``k``, searched down the chain from the window's end where it is not known.

    The window has entries.
    """
    at = pointer_at(h, slot, k)
    f = load_i32(at)
    if f >= 0:
        return f
    first, f = load_i32(window_at(h, slot, c) + FIRST_OF), load_i32(window_at(h, slot, c) + LAST_OF)
    while not enters(h, f, item(h, ENTRY, c)):
        f = before(h, f)
    chain = item(h, PT_CHAIN, k)
    below = load_i32(chain_at(h, f, chain) + BELOW)
    while below >= 0 and not precedes(h, below, first):
        f = below
        below = load_i32(chain_at(h, f, chain) + BELOW)
    store_32(at, f)
    return f


@jit
def insert(h: int, slot: int, i: int) -> None:
    """Record ``i`` was put between older ones: windows whose run it is in, or directly before, take it in."""
    nxt = after(h, i)
    for c in range(word(h, CURSORS)):
        at = window_at(h, slot, c)
        first, last = load_i32(at + FIRST_OF), load_i32(at + LAST_OF)
        if first < 0 or precedes(h, last, i):
            continue
        if nxt == first:
            # It may be inside the left bound. If it is not, neither is it at the next move, which then drops it.
            add(h, slot, c, i, first, last)
            store_32(at + FIRST_OF, i)
        elif precedes(h, first, i):
            add(h, slot, c, i, first, last)


@inlined
def drop_left(h: int, slot: int, c: int, low: int) -> None:
    """Drop from cursor ``c`` what is before clock ``low``."""
    at = window_at(h, slot, c)
    first, last = load_i32(at + FIRST_OF), load_i32(at + LAST_OF)
    while first >= 0 and clock(h, first) < low:
        r = first
        first = after(h, r) if r != last else -1
        store_32(at + FIRST_OF, first)
        remove(h, slot, c, r, first, last)


@inlined
def move(h: int, slot: int, c: int, i: int, newest: bool) -> None:
    """Move cursor ``c`` to the window of record ``i``, without ``i`` where that is not included or the end is open.

    ``newest``: ``i`` is the last of its key's list, so nothing has to move back.
    """
    now = clock(h, i)
    low = now - item(h, BEGINS, c)
    high = now - item(h, ENDS, c)
    with_i = item(h, INCLUDE, c) != 0
    if not newest:
        _back(h, slot, c, i, high, with_i)
    drop_left(h, slot, c, low)
    at = window_at(h, slot, c)
    first, last = load_i32(at + FIRST_OF), load_i32(at + LAST_OF)
    nxt = after(h, last) if last >= 0 else load_i32(slot_row(h, slot) + HEAD)
    while nxt >= 0 and clock(h, nxt) <= high and (with_i or nxt != i):
        if first >= 0 or clock(h, nxt) >= low:
            add(h, slot, c, nxt, first, last)
            if first < 0:
                first = nxt
        last = nxt
        nxt = after(h, last)
    store_32(at + FIRST_OF, first)
    store_32(at + LAST_OF, last)
    if not newest:
        _widen(h, slot, c, low)


@jit
def _back(h: int, slot: int, c: int, i: int, high: int, with_i: bool) -> None:
    """Take off the right end what is later than ``high``, and where ``i`` is not included what does not precede it."""
    at, now = window_at(h, slot, c), clock(h, i)
    first, last = load_i32(at + FIRST_OF), load_i32(at + LAST_OF)
    while last >= 0 and (clock(h, last) > high or (not with_i and last >= i and clock(h, last) == now)):
        r = last
        last = before(h, r)
        store_32(at + LAST_OF, last)
        if first >= 0:
            if r == first:
                first = -1
                store_32(at + FIRST_OF, first)
            remove(h, slot, c, r, first, last)


@jit
def _widen(h: int, slot: int, c: int, low: int) -> None:
    """Take in on the left what is not before clock ``low``."""
    at = window_at(h, slot, c)
    first, last = load_i32(at + FIRST_OF), load_i32(at + LAST_OF)
    nxt = before(h, first) if first >= 0 else last
    while nxt >= 0 and clock(h, nxt) >= low:
        add(h, slot, c, nxt, first, last)
        first = nxt
        store_32(at + FIRST_OF, first)
        nxt = before(h, nxt)
