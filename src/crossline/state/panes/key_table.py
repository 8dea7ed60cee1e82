"""Keys to slots: open addressing, a place after the other. A place has the upper half of a hash and a slot.

A hash's first place is its upper half scaled to the number of places. A larger number of places puts none nearer to the
beginning, so a table grows where it is, from its end, as those of windows (``records/incremental_rehash.py``): below
KEY_SPLIT, first places are by KEY_FORMER, the number of places before; at and above it, by the new one. A step moves
the split down. All is done by what stands in the table: no slot is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import inlined, jit, prefetch
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at
from crossline.state.panes.heap import block, fitting, give, take
from crossline.state.records.hash_tables import same_bytes

AHEAD = 16
_32 = np.uint64(32)
_LOW = 0xFFFFFFFF


@inlined
def _first_place(h: int, upper: int) -> Any:
    """The place that a search for the upper half of a hash begins with."""
    place = (upper * get(h, at.KEY_FORMER)) >> 32
    return place if place < get(h, at.KEY_SPLIT) else (upper * get(h, at.KEY_PLACES)) >> 32


@inlined
def _next_place(h: int, place: int) -> Any:
    return place + 1 if place + 1 < get(h, at.KEY_PLACES) else 0


@inlined
def _upper(hash_: Any) -> Any:
    """The upper half of a hash."""
    return np.int64(hash_ >> _32)


@inlined
def _upper_there(there: int) -> Any:
    """The upper half of the hash whose slot stands at a place."""
    return (there >> 32) & _LOW


@jit
def slot_row(h: int, slot: int) -> Any:
    """Address of a slot."""
    return address(h, at.SLOTS) + slot * get(h, at.SLOT_BYTES)


@jit
def find_key(h: int, hash_: Any, start: int, length: int) -> Any:
    """The slot of a key whose bytes stand at ``start``, or -1."""
    upper = _upper(hash_)
    place = _first_place(h, upper)
    while True:
        there = get(h, at.SLOT_THERE, place)
        if there == 0:
            return -1
        if _upper_there(there) == upper:
            slot = (there & _LOW) - 1
            row = slot_row(h, slot)
            if (
                np.uint64(load(row, at.OWN_HASH)) == hash_
                and load(row, at.OWN_LENGTH) == length
                and same_bytes(block(h, load(row, at.OWN_KEY)), start, length)
            ):
                return slot
        place = _next_place(h, place)


@inlined
def _likely_slot(h: int, hash_: Any) -> Any:
    """The first slot of this upper half of a hash, or -1: mostly that of the key."""
    upper = _upper(hash_)
    place = _first_place(h, upper)
    there = get(h, at.SLOT_THERE, place)
    while there != 0 and _upper_there(there) != upper:
        place = _next_place(h, place)
        there = get(h, at.SLOT_THERE, place)
    return (there & _LOW) - 1


@jit
def _put_there(h: int, there: int) -> None:
    """Put the upper half of a hash and a slot at the first place that is free for them."""
    place = _first_place(h, _upper_there(there))
    while get(h, at.SLOT_THERE, place) != 0:
        place = _next_place(h, place)
    put(h, at.SLOT_THERE, place, there)


@jit
def put_key(h: int, slot: int) -> None:
    """Enter a slot under its key."""
    _put_there(h, (_upper(np.uint64(get(h, at.OWN_HASH, slot))) << 32) | (slot + 1))


@jit
def _take_key(h: int, slot: int) -> None:
    """Take a slot out, and move up what stood behind it."""
    places, upper = get(h, at.KEY_PLACES), _upper(np.uint64(get(h, at.OWN_HASH, slot)))
    mine, hole = (upper << 32) | (slot + 1), _first_place(h, upper)
    while get(h, at.SLOT_THERE, hole) != mine:
        hole = _next_place(h, hole)
    place = hole
    while True:
        place = _next_place(h, place)
        there = get(h, at.SLOT_THERE, place)
        if there == 0:
            break
        first = _first_place(h, _upper_there(there))
        from_first = place - first if place >= first else place - first + places
        if from_first >= (place - hole if place >= hole else place - hole + places):
            put(h, at.SLOT_THERE, hole, there)
            hole = place
    put(h, at.SLOT_THERE, hole, 0)


@jit
def key_run(h: int, start: int) -> Any:
    """How many places from ``start`` on (after the last comes the first) are taken, one after the other."""
    places, count = get(h, at.KEY_PLACES), 0
    place = start if start < places else 0
    while count < places and get(h, at.SLOT_THERE, place) != 0:
        place = _next_place(h, place)
        count += 1
    return count


@jit
def take_keys(h: int, start: int, count: int) -> Any:
    """Take what stands at ``count`` places from ``start`` on out into KEYS_MOVED; how many keys that are."""
    n, place = 0, start
    for _ in range(count):
        there = get(h, at.SLOT_THERE, place)
        if there != 0:
            put(h, at.KEYS_MOVED, n, there)
            put(h, at.SLOT_THERE, place, 0)
            n += 1
        place = _next_place(h, place)
    return n


@jit
def put_keys(h: int, count: int) -> None:
    """Enter ``count`` keys of KEYS_MOVED again."""
    for k in range(count):
        _put_there(h, get(h, at.KEYS_MOVED, k))


@jit
def find_keys(h: int) -> None:
    """Look up all keys of the batch: lookups that do not wait for each other overlap in memory."""
    keys = get(h, at.BATCH_KEYS)
    for key in range(keys):
        if key + AHEAD < keys:
            upper = _upper(np.uint64(get(h, at.KEY_HASH, key + AHEAD)))
            prefetch(address(h, at.SLOT_THERE, _first_place(h, upper)))
        if key + AHEAD // 2 < keys:
            slot = _likely_slot(h, np.uint64(get(h, at.KEY_HASH, key + AHEAD // 2)))
            if slot >= 0:
                prefetch(slot_row(h, slot))
        if key + AHEAD // 4 < keys:
            slot = _likely_slot(h, np.uint64(get(h, at.KEY_HASH, key + AHEAD // 4)))
            if slot >= 0:
                prefetch(block(h, get(h, at.OWN_KEY, slot)))
        start = get(h, at.KEY_OFFSETS, key)
        length = get(h, at.KEY_OFFSETS, key + 1) - start
        slot = find_key(h, np.uint64(get(h, at.KEY_HASH, key)), address(h, at.KEY_BYTES) + start, length)
        put(h, at.KEY_SLOT, key, slot)


@inlined
def slot_of(h: int, key: int) -> Any:
    """The slot of key number ``key`` of the batch, or -1: that of one with another number may have been made since."""
    slot = get(h, at.KEY_SLOT, key)
    if slot < 0:
        start = get(h, at.KEY_OFFSETS, key)
        length = get(h, at.KEY_OFFSETS, key + 1) - start
        slot = find_key(h, np.uint64(get(h, at.KEY_HASH, key)), address(h, at.KEY_BYTES) + start, length)
        put(h, at.KEY_SLOT, key, slot)
    return slot


@jit
def add_slot(h: int, key: int) -> Any:
    """A slot for key number ``key`` of the batch, which has none."""
    slot = get(h, at.FREE_SLOT)
    if slot >= 0:
        put(h, at.FREE_SLOT, load(slot_row(h, slot), at.NEXT_FREE_SLOT))
        put(h, at.N_FREE, get(h, at.N_FREE) - 1)
    else:
        slot = get(h, at.N_SLOTS)
        put(h, at.N_SLOTS, slot + 1)
    row, born = slot_row(h, slot), address(h, at.SLOT_BORN)
    for k in range(0, get(h, at.SLOT_BYTES), 8):
        store(row + k, at.EIGHT_BYTES, load(born + k, at.EIGHT_BYTES))
    start = get(h, at.KEY_OFFSETS, key)
    length = get(h, at.KEY_OFFSETS, key + 1) - start
    handle = take(h, fitting(h, key_units(length)))
    source, target, k = address(h, at.KEY_BYTES) + start, block(h, handle), 0
    while k < length:
        store(target + k, at.BYTE, load(source + k, at.BYTE))
        k += 1
    store(row, at.OWN_HASH, get(h, at.KEY_HASH, key))
    store(row, at.OWN_KEY, handle)
    store(row, at.OWN_LENGTH, length)
    put_key(h, slot)
    put(h, at.KEY_SLOT, key, slot)
    return slot


@jit
def key_units(length: int) -> Any:
    """Units that a key of ``length`` bytes takes."""
    return (length >> 3) + 1


@jit
def free_slot(h: int, slot: int) -> None:
    """Give up the slot of a key of which nothing is held."""
    row = slot_row(h, slot)
    _take_key(h, slot)
    give(h, load(row, at.OWN_KEY), fitting(h, key_units(load(row, at.OWN_LENGTH))))
    store(row, at.OWN_KEY, 0)
    store(row, at.NEXT_FREE_SLOT, get(h, at.FREE_SLOT))
    put(h, at.FREE_SLOT, slot)
    put(h, at.N_FREE, get(h, at.N_FREE) + 1)
