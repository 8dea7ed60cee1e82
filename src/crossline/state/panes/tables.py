"""Keys to slots: open addressing, a place after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import (
    inlined,
    jit,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    prefetch,
    store_8,
    store_32,
    store_64,
)
from crossline.state.memory.header import item, tally, word
from crossline.state.panes import layout as at
from crossline.state.panes.heap import block, fitting, give, take
from crossline.state.records.tables import same_bytes

AHEAD = 16
_32 = np.uint64(32)


@jit
def slot_row(h: int, slot: int) -> Any:
    """Address of a slot."""
    return word(h, at.SLOTS) + slot * word(h, at.SLOT_BYTES)


@jit
def find_key(h: int, hash_: Any, start: int, length: int) -> Any:
    """The slot of a key whose bytes stand at ``start``, or -1."""
    table, mask = word(h, at.KEY_TABLE), word(h, at.KEY_MASK)
    place = np.int64(hash_ >> _32) & mask
    while True:
        slot = load_i32(table + 4 * place)
        if slot < 0:
            return -1
        row = slot_row(h, slot)
        if (
            np.uint64(load_i64(row + at.OWN_HASH)) == hash_
            and load_u32(row + at.OWN_LENGTH) == length
            and same_bytes(block(h, load_u32(row + at.OWN_KEY)), start, length)
        ):
            return slot
        place = (place + 1) & mask


@jit
def put_key(h: int, slot: int) -> None:
    """Enter a slot under its key."""
    table, mask = word(h, at.KEY_TABLE), word(h, at.KEY_MASK)
    place = np.int64(np.uint64(load_i64(slot_row(h, slot) + at.OWN_HASH)) >> _32) & mask
    while load_i32(table + 4 * place) >= 0:
        place = (place + 1) & mask
    store_32(table + 4 * place, slot)


@jit
def _take_key(h: int, slot: int) -> None:
    """Take a slot out, and move up what stood behind it."""
    table, mask = word(h, at.KEY_TABLE), word(h, at.KEY_MASK)
    place = np.int64(np.uint64(load_i64(slot_row(h, slot) + at.OWN_HASH)) >> _32) & mask
    while load_i32(table + 4 * place) != slot:
        place = (place + 1) & mask
    hole = place
    while True:
        place = (place + 1) & mask
        other = load_i32(table + 4 * place)
        if other < 0:
            break
        home = np.int64(np.uint64(load_i64(slot_row(h, other) + at.OWN_HASH)) >> _32) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            store_32(table + 4 * hole, other)
            hole = place
    store_32(table + 4 * hole, -1)


@jit
def rebuild_keys(h: int) -> None:
    """Enter all slots in use into an empty table."""
    for slot in range(tally(h, at.N_SLOTS)):
        if load_u32(slot_row(h, slot) + at.OWN_KEY) != 0:
            put_key(h, slot)


@jit
def find_keys(h: int) -> None:
    """Look up all keys of the batch: lookups that do not wait for each other overlap in memory."""
    keys, table, mask = word(h, at.BATCH_KEYS), word(h, at.KEY_TABLE), word(h, at.KEY_MASK)
    for key in range(keys):
        if key + AHEAD < keys:
            prefetch(table + 4 * (np.int64(np.uint64(item(h, at.KEY_HASH, key + AHEAD)) >> _32) & mask))
        if key + AHEAD // 2 < keys:
            slot = load_i32(table + 4 * (np.int64(np.uint64(item(h, at.KEY_HASH, key + AHEAD // 2)) >> _32) & mask))
            if slot >= 0:
                prefetch(slot_row(h, slot))
        if key + AHEAD // 4 < keys:
            slot = load_i32(table + 4 * (np.int64(np.uint64(item(h, at.KEY_HASH, key + AHEAD // 4)) >> _32) & mask))
            if slot >= 0:
                prefetch(block(h, load_u32(slot_row(h, slot) + at.OWN_KEY)))
        start = item(h, at.KEY_OFFSETS, key)
        length = item(h, at.KEY_OFFSETS, key + 1) - start
        slot = find_key(h, np.uint64(item(h, at.KEY_HASH, key)), word(h, at.KEY_BYTES) + start, length)
        store_32(word(h, at.KEY_SLOT) + 4 * key, slot)


@inlined
def slot_of(h: int, key: int) -> Any:
    """The slot of key number ``key`` of the batch, or -1: that of one with another number may have been made since."""
    slot = load_i32(word(h, at.KEY_SLOT) + 4 * key)
    if slot < 0:
        start = item(h, at.KEY_OFFSETS, key)
        length = item(h, at.KEY_OFFSETS, key + 1) - start
        slot = find_key(h, np.uint64(item(h, at.KEY_HASH, key)), word(h, at.KEY_BYTES) + start, length)
        store_32(word(h, at.KEY_SLOT) + 4 * key, slot)
    return slot


@jit
def add_slot(h: int, key: int) -> Any:
    """A slot for key number ``key`` of the batch, which has none."""
    slot = tally(h, at.FREE_SLOT)
    if slot >= 0:
        store_64(h + 8 * at.FREE_SLOT, load_i32(slot_row(h, slot) + at.OWN_LENGTH))
        store_64(h + 8 * at.N_FREE, tally(h, at.N_FREE) - 1)
    else:
        slot = tally(h, at.N_SLOTS)
        store_64(h + 8 * at.N_SLOTS, slot + 1)
    row, born = slot_row(h, slot), word(h, at.SLOT_BORN)
    for k in range(0, word(h, at.SLOT_BYTES), 8):
        store_64(row + k, load_i64(born + k))
    start = item(h, at.KEY_OFFSETS, key)
    length = item(h, at.KEY_OFFSETS, key + 1) - start
    handle = take(h, fitting(h, key_units(length)))
    source, target, k = word(h, at.KEY_BYTES) + start, block(h, handle), 0
    while k < length:
        store_8(target + k, load_u8(source + k))
        k += 1
    store_64(row + at.OWN_HASH, item(h, at.KEY_HASH, key))
    store_32(row + at.OWN_KEY, handle)
    store_32(row + at.OWN_LENGTH, length)
    put_key(h, slot)
    store_32(word(h, at.KEY_SLOT) + 4 * key, slot)
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
    give(h, load_u32(row + at.OWN_KEY), fitting(h, key_units(load_u32(row + at.OWN_LENGTH))))
    store_32(row + at.OWN_KEY, 0)
    store_32(row + at.OWN_LENGTH, tally(h, at.FREE_SLOT))
    store_64(h + 8 * at.FREE_SLOT, slot)
    store_64(h + 8 * at.N_FREE, tally(h, at.N_FREE) + 1)
