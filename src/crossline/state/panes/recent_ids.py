"""Which ids came lately: open addressing over blocks of 64 bytes, a line of memory, of four hashes and their clocks.

A clock stands with its sign turned, so that 0, what memory is born as, is before all others: a free place. A block is
filled from its first place on, and what finds no room goes to the next one, so a search ends at a block whose last
place is free. Ids that are settled are forgotten: another takes their place. No place becomes free again, so blocks
fill up slowly, until the table is made anew. A large one is made anew by steps, from its beginning on, some blocks at a
time, and meanwhile a search looks in both. A new id goes to the new table where that has been filled already, else to
the old one: a page of memory that was never touched costs a millisecond, and ids would touch all pages in one batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import above_4, inlined, jit, lowest, prefetch, same_4
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at

BLOCK, PLACES, CLOCKS_AT = at.ID_BLOCK.bytes, 4, int(at.CLOCK_THERE)
_ALL = (1 << PLACES) - 1
_TURN = -(2**63)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_32 = np.uint64(32)


@jit
def of_slot(hash_: Any, slot: int) -> Any:
    """The hash of an id under a slot's key."""
    return hash_ + np.uint64(slot) * _SPREAD


@jit
def _first_block(h: int, hash_: Any) -> Any:
    """Address of the block that a search begins with: the upper half of the hash scaled to the number of blocks."""
    return address(h, at.ID_TABLE) + ((np.int64(hash_ >> _32) * get(h, at.ID_BLOCKS)) >> 32) * BLOCK


@jit
def _next_block(h: int, block: int) -> Any:
    block += BLOCK
    return block if block < address(h, at.ID_TABLE) + get(h, at.ID_BLOCKS) * BLOCK else address(h, at.ID_TABLE)


@jit
def _first_old_block(h: int, hash_: Any) -> Any:
    """As ``_first_block``, in the old table."""
    return address(h, at.OLD_ID_TABLE) + ((np.int64(hash_ >> _32) * get(h, at.OLD_BLOCKS)) >> 32) * BLOCK


@jit
def call_id(h: int, hash_: Any) -> None:
    """Call for where an id stands, if it is known."""
    prefetch(_first_block(h, hash_))
    if get(h, at.OLD_BLOCKS) != 0:
        prefetch(_first_old_block(h, hash_))


@inlined
def _came(block: int, hash_: Any, since_ms: int) -> Any:
    """Whether an id stands in a block with a clock of ``since_ms`` or later."""
    same = same_4(block, np.int64(hash_))
    while same != 0:
        clock = load(block + 8 * lowest(same), at.CLOCK_THERE)
        if clock != 0 and clock ^ _TURN >= since_ms:
            return True
        same &= same - 1
    return False


@jit
def _came_before(h: int, hash_: Any, since_ms: int) -> Any:
    """Whether an id stands among those of the old table that were not moved, as of ``_came``.

    What was moved has no memory. Ids that passed moved blocks stand right behind them.
    """
    blocks, table = get(h, at.OLD_BLOCKS), address(h, at.OLD_ID_TABLE)
    if blocks == 0 or blocks == get(h, at.OLD_MOVED):
        return False
    left = table + get(h, at.OLD_MOVED) * BLOCK
    block = first = max(_first_old_block(h, hash_), left)
    while not _came(block, hash_, since_ms):
        if load(block, at.LAST_CLOCK) == 0:
            return False
        block += BLOCK
        if block == table + blocks * BLOCK:
            block = left
        if block == first:
            return False
    return True


@jit
def _old_place(h: int, hash_: Any, since_ms: int) -> Any:
    """Where an id may be noted in the old table; -1: it came, as of ``_came``.

    0: it is to be looked for in both tables, and noted in the new one. That is where its blocks of the old table were
    moved, or reach beyond its end.
    """
    end = address(h, at.OLD_ID_TABLE) + get(h, at.OLD_BLOCKS) * BLOCK
    block, place = _first_old_block(h, hash_), 0
    if block < address(h, at.OLD_ID_TABLE) + get(h, at.OLD_MOVED) * BLOCK:
        return 0
    while block < end:
        if _came(block, hash_, since_ms):
            return -1
        if place == 0:
            place = _left_place(h, block)
        if load(block, at.LAST_CLOCK) == 0:
            return place
        block += BLOCK
    return 0


@inlined
def _left_place(h: int, block: int) -> Any:
    """The first place of a block that is free, or of an id that is settled; 0: there is none."""
    left = above_4(block + CLOCKS_AT, get(h, at.FOLD_TO) ^ _TURN) ^ _ALL
    return block + 8 * lowest(left) if left != 0 else 0


@jit
def has_id(h: int, hash_: Any, since_ms: int) -> Any:
    """Whether an id came with a clock of ``since_ms`` or later."""
    if get(h, at.OLD_BLOCKS) != 0:
        old = _old_place(h, hash_, since_ms)
        if old != 0:
            return old < 0
    block = _first_block(h, hash_)
    while not _came(block, hash_, since_ms):
        if load(block, at.LAST_CLOCK) == 0:
            return _came_before(h, hash_, since_ms)
        block = _next_block(h, block)
    return True


@inlined
def know_id(h: int, hash_: Any, clock_ms: int, since_ms: int) -> Any:
    """Whether an id came with a clock of ``since_ms`` or later; if not, it is noted as come at ``clock_ms``."""
    if get(h, at.OLD_BLOCKS) != 0:
        old = _old_place(h, hash_, since_ms)
        if old != 0:
            if old > 0:
                _note(old, hash_, clock_ms)
            return old < 0
    block, place = _first_block(h, hash_), 0
    while not _came(block, hash_, since_ms):
        if place == 0:
            place = _left_place(h, block)
        if load(block, at.LAST_CLOCK) == 0:
            if _came_before(h, hash_, since_ms):
                return True
            if load(place, at.CLOCK_THERE) == 0:
                put(h, at.N_IDS, get(h, at.N_IDS) + 1)
            _note(place, hash_, clock_ms)
            return False
        block = _next_block(h, block)
    return True


@jit
def _note(place: int, hash_: Any, clock_ms: int) -> None:
    """Put an id and its clock at a place."""
    store(place, at.ID_THERE, np.int64(hash_))
    store(place, at.CLOCK_THERE, clock_ms ^ _TURN)


@jit
def put_ids(h: int, count: int) -> None:
    """Enter what is not settled of the next ``count`` blocks of the old table into the new one."""
    n, moved = get(h, at.N_IDS), get(h, at.OLD_MOVED)
    blocks = address(h, at.OLD_ID_TABLE)
    put(h, at.OLD_MOVED, moved + count)
    for old in range(blocks + moved * BLOCK, blocks + (moved + count) * BLOCK, BLOCK):
        kept = above_4(old + CLOCKS_AT, get(h, at.FOLD_TO) ^ _TURN)
        while kept != 0:
            source = old + 8 * lowest(kept)
            block = _first_block(h, np.uint64(load(source, at.ID_THERE)))
            while load(block, at.LAST_CLOCK) != 0:
                block = _next_block(h, block)
            place = block + 8 * lowest(above_4(block + CLOCKS_AT, 0) ^ _ALL)
            store(place, at.ID_THERE, load(source, at.ID_THERE))
            store(place, at.CLOCK_THERE, load(source, at.CLOCK_THERE))
            n += 1
            kept &= kept - 1
    put(h, at.N_IDS, n)
