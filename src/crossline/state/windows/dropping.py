"""Dropping records one by one, oldest first, so that a large state need not be compacted at once.

Records keep their numbers: those before FIRST_RECORD were dropped, and the memory of their rows and ids is given back
(see ``RecordStore``). A record that is dropped is the first of its key's list. Where later records of the key have
earlier clocks, these go before it, and until FIRST_RECORD passes them, their rows have no slot. So lists, chains and
links between like values lose records at their beginning only. What may still name a dropped record is ``BELOW``, which
``below_of`` reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit, prefetch
from crossline.state.memory.addresses import (
    clock,
    enters,
    id_start,
    match_step_row,
    row_of,
    same_at,
    slot_row,
    value_i,
    waiting_at,
)
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.memory.hashing import xxh64
from crossline.state.records.hash_tables import AHEAD, NO_SEED, block_of, erase, erase_value, value_hash
from crossline.state.windows.prefetch import call_for_record
from crossline.state.windows.rolling_window import drop_left

WINDOWS_EACH, PLACES_EACH = 4, 4  # windows, and places to wait, that are looked at ahead


@jit
def drop_records(h: int, cutoff_ms: int, limit: int) -> Any:
    """Drop up to ``limit`` records from the oldest on, up to one with a clock after ``cutoff_ms``; how many."""
    first, end = get(h, at.FIRST_RECORD), get(h, at.N_RECORDS)
    for r in range(first, min(first + AHEAD, end)):
        _call_for(h, r)
    r = first
    while r < min(first + limit, end):
        slot = get(h, at.SLOT, r)
        if slot >= 0:
            if clock(h, r) > cutoff_ms:
                break
            head = get(h, at.HEAD, slot)
            while head >= 0 and head != r:
                _drop(h, slot, head, _hash_of(h, head), cutoff_ms)
                head = get(h, at.HEAD, slot)
            _drop(h, slot, r, np.uint64(get(h, at.SCRATCH, r & (AHEAD - 1))), cutoff_ms)
        if r + AHEAD < end:
            _call_for(h, r + AHEAD)
        if r + AHEAD // 2 < end:
            _call_on(h, r + AHEAD // 2)
        r += 1
    put(h, at.FIRST_RECORD, r)
    return r - first


@jit
def _hash_of(h: int, r: int) -> Any:
    """The hash of a record's id."""
    ids = address(h, at.IDS)
    return xxh64(ids + id_start(h, r), ids + get(h, at.ID_END, r), NO_SEED)


@jit
def _call_for(h: int, r: int) -> None:
    """Call for what dropping record ``r`` will touch; the hash of its id is kept for it."""
    slot = get(h, at.SLOT, r)
    if slot < 0:
        return
    hash_ = _hash_of(h, r)
    put(h, at.SCRATCH, r & (AHEAD - 1), np.int64(hash_))
    prefetch(address(h, at.ID_TABLE) + block_of(h, at.ID_TABLE, hash_))
    prefetch(slot_row(h, slot))


@jit
def _call_on(h: int, r: int) -> None:
    """Call for what dropping record ``r`` will touch beyond its slot, which was called for before."""
    nxt, slot = get(h, at.AFTER, r), get(h, at.SLOT, r)
    if nxt >= 0:
        call_for_record(h, nxt)
    if slot >= 0:
        for c in range(min(get(h, at.N_WINDOWS), WINDOWS_EACH)):
            call_for_record(h, get(h, at.FIRST_OF, slot, c))
        for k in range(min(get(h, at.MATCH_STATES), PLACES_EACH)):
            prefetch(match_step_row(h, get(h, at.WAITING, slot, k)))


@jit
def _drop(h: int, slot: int, r: int, hash_: Any, cutoff_ms: int) -> None:
    """Drop record ``r``, the first of its key's list (kernels without lists: any)."""
    for c in range(get(h, at.N_WINDOWS)):
        drop_left(h, slot, c, cutoff_ms + 1)
    erase(h, at.ID_TABLE, hash_, r)
    for k in range(get(h, at.LINKS)):
        _untie(h, slot, r, k)
    for k in range(get(h, at.MATCH_STATES)):
        _end_match(h, slot, r, k)
    row, keyed = row_of(h, r), slot_row(h, slot)
    nxt = load(row, at.AFTER)
    last = load(keyed, at.TAIL) == r
    for k in range(get(h, at.SLOT_LINKS)):
        link = keyed + get(h, at.SLOT_LINK_AT, k)
        if load(link, at.NUMBERED) == r:
            store(link, at.NUMBERED, -1)
    if nxt >= 0:
        put(h, at.BEFORE, nxt, -1)
        store(keyed, at.HEAD, nxt)
    if last:
        put(h, at.N_VACANT, get(h, at.N_VACANT) + 1)
    store(row, at.SLOT, -1)


@jit
def _untie(h: int, slot: int, r: int, k: int) -> None:
    """The next of the same value in link ``k`` becomes the first; where there is none, the value is forgotten."""
    if not enters(h, r, get(h, at.LINK_FILTER, k)):
        return
    nxt = load(same_at(h, r, k), at.SAME_AFTER)
    if nxt >= 0:
        put(h, at.SAME_BEFORE, nxt, k, -1)
        return
    erase_value(h, value_hash(slot, k, value_i(h, r, get(h, at.LINK_COL, k))), (k << 32) | r)
    put(h, at.N_VALUES, get(h, at.N_VALUES) - 1)


@jit
def _end_match(h: int, slot: int, r: int, k: int) -> None:
    """What waits at place ``k`` waits no longer where it began with record ``r``: its rows are free."""
    place = waiting_at(h, slot, k)
    step = load(place, at.WAITING)
    if step < 0 or get(h, at.BEGAN, step) != r:
        return
    store(place, at.WAITING, -1)
    first = match_step_row(h, step)
    while load(first, at.PRIOR) >= 0:
        first = match_step_row(h, load(first, at.PRIOR))
    store(first, at.PRIOR, get(h, at.FREE_MATCH_STEP))
    put(h, at.FREE_MATCH_STEP, step)
