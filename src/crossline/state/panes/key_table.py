"""Keys to slots: open addressing, a place after the other."""

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


@jit
def slot_row(h: int, slot: int) -> Any:
    """Address of a slot."""
    return address(h, at.SLOTS) + slot * get(h, at.SLOT_BYTES)


@jit
def find_key(h: int, hash_: Any, start: int, length: int) -> Any:
    """The slot of a key whose bytes stand at ``start``, or -1."""
    mask = get(h, at.KEY_MASK)
    place = np.int64(hash_ >> _32) & mask
    while True:
        slot = get(h, at.SLOT_THERE, place)
        if slot < 0:
            return -1
        row = slot_row(h, slot)
        if (
            np.uint64(load(row, at.OWN_HASH)) == hash_
            and load(row, at.OWN_LENGTH) == length
            and same_bytes(block(h, load(row, at.OWN_KEY)), start, length)
        ):
            return slot
        place = (place + 1) & mask


@jit
def put_key(h: int, slot: int) -> None:
    """Enter a slot under its key."""
    mask = get(h, at.KEY_MASK)
    place = np.int64(np.uint64(get(h, at.OWN_HASH, slot)) >> _32) & mask
    while get(h, at.SLOT_THERE, place) >= 0:
        place = (place + 1) & mask
    put(h, at.SLOT_THERE, place, slot)


@jit
def _take_key(h: int, slot: int) -> None:
    """Take a slot out, and move up what stood behind it."""
    mask = get(h, at.KEY_MASK)
    place = np.int64(np.uint64(get(h, at.OWN_HASH, slot)) >> _32) & mask
    while get(h, at.SLOT_THERE, place) != slot:
        place = (place + 1) & mask
    hole = place
    while True:
        place = (place + 1) & mask
        other = get(h, at.SLOT_THERE, place)
        if other < 0:
            break
        home = np.int64(np.uint64(get(h, at.OWN_HASH, other)) >> _32) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            put(h, at.SLOT_THERE, hole, other)
            hole = place
    put(h, at.SLOT_THERE, hole, -1)


@jit
def rebuild_keys(h: int) -> None:
    """Enter all slots in use into an empty table."""
    for slot in range(get(h, at.N_SLOTS)):
        if get(h, at.OWN_KEY, slot) != 0:
            put_key(h, slot)


@jit
def find_keys(h: int) -> None:
    """Look up all keys of the batch: lookups that do not wait for each other overlap in memory."""
    keys, mask = get(h, at.BATCH_KEYS), get(h, at.KEY_MASK)
    for key in range(keys):
        if key + AHEAD < keys:
            prefetch(address(h, at.SLOT_THERE, np.int64(np.uint64(get(h, at.KEY_HASH, key + AHEAD)) >> _32) & mask))
        if key + AHEAD // 2 < keys:
            slot = get(h, at.SLOT_THERE, np.int64(np.uint64(get(h, at.KEY_HASH, key + AHEAD // 2)) >> _32) & mask)
            if slot >= 0:
                prefetch(slot_row(h, slot))
        if key + AHEAD // 4 < keys:
            slot = get(h, at.SLOT_THERE, np.int64(np.uint64(get(h, at.KEY_HASH, key + AHEAD // 4)) >> _32) & mask)
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
