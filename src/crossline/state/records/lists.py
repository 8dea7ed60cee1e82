"""Placing a record: in its key's list by clock, in the chains that give minima and maxima, among its like values.

All of it depends on the records alone, not on any window, so that windows of any length share it.
"""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import (
    after,
    before,
    below_of,
    chain_at,
    clock,
    enters,
    precedes,
    row_of,
    same_at,
    slot_row,
    tail_at,
    value_f,
    value_i,
)
from crossline.state.memory.fields import get, load, put, store
from crossline.state.memory.layout import (
    AFTER,
    BEFORE,
    BELOW,
    CHAIN_COL,
    CHAIN_FILTER,
    CHAIN_MAX,
    CHAINS,
    COLUMN_FLOAT,
    FIRST_RECORD,
    HEAD,
    LINK_COL,
    LINK_FILTER,
    LINKED,
    LINKS,
    N_VACANT,
    N_VALUES,
    N_WALKED,
    SAME_AFTER,
    SAME_BEFORE,
    SLOT,
    TAIL,
    TAIL_OF,
    UP,
)
from crossline.state.records.hash_tables import LOW, find_value, put_value, value_hash

NEAR = 16  # steps back in a list before its records are looked for by their numbers
STEP_NUMBERS = 32  # a step in a list takes as long as so many records side by side: it waits for memory
SIDE_BY_SIDE = 3  # further records that say how far the clock was


@jit
def follow(h: int, keyed: int, prev: int, i: int) -> None:
    """Have record ``i`` come after ``prev`` in the list of the slot at ``keyed``; -1: as its first."""
    if prev < 0:
        store(keyed, HEAD, i)
    else:
        put(h, AFTER, prev, i)


@inlined
def link(h: int, slot: int, i: int) -> Any:
    """Put record ``i``, the newest, into its key's list. Whether it became the last there."""
    if _link_last(h, slot, i):
        return True
    now, nxt, walked = clock(h, i), get(h, TAIL, slot), 1
    prev = before(h, nxt)
    while prev >= 0 and clock(h, prev) > now:
        nxt = prev
        prev = before(h, prev)
        walked += 1
    put(h, N_WALKED, get(h, N_WALKED) + walked)
    _link_before(h, slot, i, nxt)
    return False


@inlined
def link_far(h: int, slot: int, i: int) -> None:
    """As ``link``, for kernels that walk over no records between a late one and the last."""
    if not _link_last(h, slot, i):
        _link_before(h, slot, i, _later(h, slot, i))


@inlined
def _link_last(h: int, slot: int, i: int) -> Any:
    """Put record ``i`` at the end of its key's list, if it belongs there. Whether it does."""
    keyed, row = slot_row(h, slot), row_of(h, i)
    last = load(keyed, TAIL)
    if last < 0:
        put(h, N_VACANT, get(h, N_VACANT) - 1)
    elif clock(h, last) > clock(h, i):
        return False
    store(row, BEFORE, last)
    store(row, AFTER, -1)
    store(keyed, TAIL, i)
    follow(h, keyed, last, i)
    return True


@jit
def _link_before(h: int, slot: int, i: int, nxt: int) -> None:
    """Put record ``i`` before ``nxt`` in its key's list."""
    row, prev = row_of(h, i), before(h, nxt)
    store(row, BEFORE, prev)
    store(row, AFTER, nxt)
    put(h, BEFORE, nxt, i)
    follow(h, slot_row(h, slot), prev, i)


@jit
def _later(h: int, slot: int, i: int) -> Any:
    """The record of the key that record ``i``, which is not its last, comes right before.

    A key with many records has one near any number, and one with few has a short list. So it is looked for in both, by
    turns, each twice as far as before.
    """
    now, nxt, steps = clock(h, i), get(h, TAIL, slot), NEAR
    first, number = get(h, FIRST_RECORD), -1
    while True:
        for _ in range(steps):
            prev = before(h, nxt)
            if prev < 0 or clock(h, prev) <= now:
                return nxt
            nxt = prev
        if number < 0:
            number = _number_at(h, i, now)
        end = max(number - STEP_NUMBERS * steps, first - 1)
        while number > end:
            if get(h, SLOT, number) == slot:
                return _later_from(h, number, now)
            number -= 1
        number, steps = max(number, first), 2 * steps


@jit
def _later_from(h: int, r: int, now: int) -> Any:
    """The first record of a list with a clock after ``now``, on either side of record ``r``; there is one."""
    while clock(h, r) <= now:
        r = after(h, r)
    prev = before(h, r)
    while prev >= 0 and clock(h, prev) > now:
        r = prev
        prev = before(h, r)
    return r


@jit
def _number_at(h: int, i: int, now: int) -> Any:
    """The number of a record, of any key, that came before record ``i`` and about when the clock stood at ``now``."""
    low, high, step = get(h, FIRST_RECORD), i - 1, NEAR
    while high - step > low and _reached(h, high - step) > now:
        high -= step
        step *= 2
    low = max(low, high - step)
    while low < high:
        middle = (low + high + 1) >> 1
        if _reached(h, middle) > now:
            high = middle - 1
        else:
            low = middle
    return low


@jit
def _reached(h: int, r: int) -> Any:
    """The greatest clock of record ``r`` and some before it, so that a late one among them misleads no search."""
    reached = clock(h, r)
    for k in range(max(r - SIDE_BY_SIDE, get(h, FIRST_RECORD)), r):
        reached = max(reached, clock(h, k))
    return reached


@jit
def beats(h: int, chain: int, a: int, b: int) -> Any:
    """Whether the value of record ``a`` is strictly smaller than that of ``b`` (larger, for a chain of maxima)."""
    col = get(h, CHAIN_COL, chain)
    if get(h, CHAIN_MAX, chain):
        a, b = b, a
    if get(h, COLUMN_FLOAT, col):
        return value_f(h, a, col) < value_f(h, b, col)
    return value_i(h, a, col) < value_i(h, b, col)


@jit
def chain_in(h: int, slot: int, i: int, last: bool) -> None:
    """Enter record ``i`` into the chains of its entries. ``last``: it is the last of the key's list."""
    for k in range(get(h, CHAINS)):
        entry, at = get(h, CHAIN_FILTER, k), chain_at(h, i, k)
        store(at, BELOW, -1)
        store(at, UP, -1)
        if not enters(h, i, entry):
            continue
        tail = tail_at(h, slot, k)
        below = load(tail, TAIL_OF)
        if last or below < 0 or precedes(h, below, i):
            store(tail, TAIL_OF, i)
        else:
            below = before(h, i)
            while below >= 0 and not enters(h, below, entry):
                below = before(h, below)
            _hang_on(h, k, i)
        nearer = -1
        while below >= 0 and not beats(h, k, below, i):
            up = get(h, UP, below, k)
            if up >= 0 and get(h, BELOW, up, k) != below:  # it was hung on i
                put(h, UP, below, k, nearer)
            nearer = below
            below = below_of(h, below, k)
        store(at, BELOW, below)
        if below >= 0:
            up = get(h, UP, below, k)
            if up < 0 or get(h, BELOW, up, k) != below or precedes(h, up, i):
                put(h, UP, below, k, i)


@jit
def _hang_on(h: int, k: int, i: int) -> None:
    """Record ``i`` comes between older ones: later records that it is now the nearest smaller one of are hung on it."""
    r = after(h, i)
    while r >= 0:
        if enters(h, r, get(h, CHAIN_FILTER, k)):
            if not beats(h, k, i, r):
                return  # what stands behind r looks no further than r
            below = below_of(h, r, k)
            if below < 0 or precedes(h, below, i):
                put(h, BELOW, r, k, i)
                put(h, UP, i, k, r)
        r = after(h, r)


@jit
def tie_values(h: int, slot: int, i: int) -> None:
    """Tie record ``i`` to its neighbours of the same value, per link."""
    for k in range(get(h, LINKS)):
        at = same_at(h, i, k)
        store(at, SAME_BEFORE, -1)
        store(at, SAME_AFTER, -1)
        if not enters(h, i, get(h, LINK_FILTER, k)):
            continue
        value = value_i(h, i, get(h, LINK_COL, k))
        hash_ = value_hash(slot, k, value)
        known = find_value(h, slot, k, value, hash_)
        if known == 0:
            put_value(h, hash_, k, i)
            put(h, N_VALUES, get(h, N_VALUES) + 1)
            continue
        prev, nxt = load(known, LINKED) & LOW, -1
        while prev >= 0 and precedes(h, i, prev):
            nxt = prev
            prev = get(h, SAME_BEFORE, prev, k)
        store(at, SAME_BEFORE, prev)
        store(at, SAME_AFTER, nxt)
        if prev >= 0:
            put(h, SAME_AFTER, prev, k, i)
        if nxt >= 0:
            put(h, SAME_BEFORE, nxt, k, i)
        else:
            store(known, LINKED, (k << 32) | i)
