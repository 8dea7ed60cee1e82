"""Placing a record: in its key's list by clock, in the chains that give minima and maxima, among its like values.

All of it depends on the records alone, not on any window, so that windows of any length share it.
"""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import inlined, jit, load_i32, load_i64, store_32, store_64
from crossline.state.memory.header import (
    after,
    before,
    chain_at,
    clock,
    enters,
    item,
    precedes,
    row_of,
    same_at,
    slot_row,
    tail_at,
    tally,
    value_f,
    value_i,
    word,
)
from crossline.state.memory.layout import (
    AFTER,
    BEFORE,
    BELOW,
    CHAIN_COL,
    CHAIN_ENTRY,
    CHAIN_MAX,
    CHAINS,
    COLUMN_FLOAT,
    HEAD,
    LINK_COL,
    LINK_ENTRY,
    LINKS,
    N_VALUES,
    N_WALKED,
    SAME_AFTER,
    SAME_BEFORE,
    TAIL,
    UP,
)
from crossline.state.records.tables import LOW, find_value, put_value, value_hash


@inlined
def link(h: int, slot: int, i: int) -> Any:
    """Put record ``i``, the newest, into its key's list. Whether it became the last there."""
    keyed, row = slot_row(h, slot), row_of(h, i)
    now, last = clock(h, i), load_i32(keyed + TAIL)
    if last < 0 or clock(h, last) <= now:
        store_32(row + BEFORE, last)
        store_32(row + AFTER, -1)
        store_32(keyed + TAIL, i)
        store_32(keyed + HEAD if last < 0 else row_of(h, last) + AFTER, i)
        return True
    nxt, walked = last, 1
    prev = before(h, nxt)
    while prev >= 0 and clock(h, prev) > now:
        nxt = prev
        prev = before(h, prev)
        walked += 1
    store_64(h + 8 * N_WALKED, tally(h, N_WALKED) + walked)
    store_32(row + BEFORE, prev)
    store_32(row + AFTER, nxt)
    store_32(row_of(h, nxt) + BEFORE, i)
    store_32(keyed + HEAD if prev < 0 else row_of(h, prev) + AFTER, i)
    return False


@jit
def beats(h: int, chain: int, a: int, b: int) -> Any:
    """Whether the value of record ``a`` is strictly smaller than that of ``b`` (larger, for a chain of maxima)."""
    col = item(h, CHAIN_COL, chain)
    if item(h, CHAIN_MAX, chain):
        a, b = b, a
    if item(h, COLUMN_FLOAT, col):
        return value_f(h, a, col) < value_f(h, b, col)
    return value_i(h, a, col) < value_i(h, b, col)


@jit
def chain_in(h: int, slot: int, i: int, last: bool) -> None:
    """Enter record ``i`` into the chains of its entries. ``last``: it is the last of the key's list."""
    for k in range(word(h, CHAINS)):
        entry, at = item(h, CHAIN_ENTRY, k), chain_at(h, i, k)
        store_32(at + BELOW, -1)
        store_32(at + UP, -1)
        if not enters(h, i, entry):
            continue
        tail = tail_at(h, slot, k)
        below = load_i32(tail)
        if last or below < 0 or precedes(h, below, i):
            store_32(tail, i)
        else:
            below = before(h, i)
            while below >= 0 and not enters(h, below, entry):
                below = before(h, below)
            _hang_on(h, k, i)
        nearer = -1
        while below >= 0 and not beats(h, k, below, i):
            up = load_i32(chain_at(h, below, k) + UP)
            if up >= 0 and load_i32(chain_at(h, up, k) + BELOW) != below:  # it was hung on i
                store_32(chain_at(h, below, k) + UP, nearer)
            nearer = below
            below = load_i32(chain_at(h, below, k) + BELOW)
        store_32(at + BELOW, below)
        if below >= 0:
            up = load_i32(chain_at(h, below, k) + UP)
            if up < 0 or load_i32(chain_at(h, up, k) + BELOW) != below or precedes(h, up, i):
                store_32(chain_at(h, below, k) + UP, i)


@jit
def _hang_on(h: int, k: int, i: int) -> None:
    """Record ``i`` comes between older ones: later records that it is now the nearest smaller one of are hung on it."""
    r = after(h, i)
    while r >= 0:
        if enters(h, r, item(h, CHAIN_ENTRY, k)):
            if not beats(h, k, i, r):
                return  # what stands behind r looks no further than r
            below = load_i32(chain_at(h, r, k) + BELOW)
            if below < 0 or precedes(h, below, i):
                store_32(chain_at(h, r, k) + BELOW, i)
                store_32(chain_at(h, i, k) + UP, r)
        r = after(h, r)


@jit
def tie_values(h: int, slot: int, i: int) -> None:
    """Tie record ``i`` to its neighbours of the same value, per link."""
    for k in range(word(h, LINKS)):
        at = same_at(h, i, k)
        store_32(at + SAME_BEFORE, -1)
        store_32(at + SAME_AFTER, -1)
        if not enters(h, i, item(h, LINK_ENTRY, k)):
            continue
        value = value_i(h, i, item(h, LINK_COL, k))
        hash_ = value_hash(slot, k, value)
        known = find_value(h, slot, k, value, hash_)
        if known == 0:
            put_value(h, hash_, k, i)
            store_64(h + 8 * N_VALUES, tally(h, N_VALUES) + 1)
            continue
        prev, nxt = load_i64(known) & LOW, -1
        while prev >= 0 and precedes(h, i, prev):
            nxt = prev
            prev = load_i32(same_at(h, prev, k) + SAME_BEFORE)
        store_32(at + SAME_BEFORE, prev)
        store_32(at + SAME_AFTER, nxt)
        if prev >= 0:
            store_32(same_at(h, prev, k) + SAME_AFTER, i)
        if nxt >= 0:
            store_32(same_at(h, nxt, k) + SAME_BEFORE, i)
        else:
            store_64(known, (k << 32) | i)
