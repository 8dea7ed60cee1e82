"""Calling for memory before it is needed: of the time that a record of a large state takes, most is waiting for it.

Loads that do not wait for each other overlap. So each row is looked at some rows before its turn, in stages, each of
which reads what the one before has called for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import inlined, jit, like_16, lowest, prefetch
from crossline.state.memory.addresses import after, clock, key_start, row_of, slot_row
from crossline.state.memory.fields import address, get, load, put
from crossline.state.memory.layout import (
    BATCH_KEYS,
    BEGINNING,
    CLOCK_MS,
    COLUMNS,
    FIRST_OF,
    ID_HASH,
    ID_TABLE,
    KEY_BYTES,
    KEY_HASH,
    KEY_INDEX,
    KEY_OFFSETS,
    KEY_SLOT,
    KEY_TABLE,
    KEYS,
    LINK_COL,
    LINKS,
    N_BEGINNINGS,
    N_WINDOWS,
    NUMBERED,
    RECORD_BYTES,
    SCOUTS,
    SLOT_BYTES,
    TAIL,
    VALUE_TABLE,
    VALUES,
    WINDOW,
)
from crossline.state.records.hash_tables import AHEAD, PLACES_MASK, block_of, find_key, item_of, tag_of, value_hash

CACHE_LINE = 64
SCOUTS_EACH = 4  # cursors that are looked at ahead
FIRSTS, STEP, LAST_STEP = 12, 2, 4  # rows ahead: when windows' firsts are called for, and where scouts go on


@jit
def slot_of(h: int, key: int) -> Any:
    """The slot of key number ``key`` of the batch, or -1."""
    slot = get(h, KEY_SLOT, key)
    if slot < 0:
        start = get(h, KEY_OFFSETS, key)
        length = get(h, KEY_OFFSETS, key + 1) - start
        slot = find_key(h, np.uint64(get(h, KEY_HASH, key)), address(h, KEY_BYTES) + start, length)
        put(h, KEY_SLOT, key, slot)
    return slot


@jit
def _likely(h: int, key: int) -> Any:
    """The slot that key number ``key`` of the batch most likely has, by the tags alone; -1 where there is none."""
    hash_ = np.uint64(get(h, KEY_HASH, key))
    table = address(h, KEY_TABLE)
    b = block_of(h, KEY_TABLE, hash_)
    same = like_16(table + b, tag_of(hash_)) & PLACES_MASK
    return load(item_of(table, b + lowest(same)), NUMBERED) if same != 0 else -1


@jit
def find_keys(h: int) -> None:
    """Look up all keys of the batch: on its own, as lookups that do not wait for each other overlap in memory."""
    for k in range(AHEAD * SCOUTS_EACH):
        put(h, SCOUTS, k, -1)  # those of the batch before may stand at records that are gone
    keys = get(h, BATCH_KEYS)
    for key in range(keys):
        if key + AHEAD < keys:
            hash_ = np.uint64(get(h, KEY_HASH, key + AHEAD))
            prefetch(address(h, KEY_TABLE) + block_of(h, KEY_TABLE, hash_))
        if key + AHEAD // 2 < keys:
            slot = _likely(h, key + AHEAD // 2)
            if slot >= 0:
                prefetch(slot_row(h, slot))
                prefetch(slot_row(h, slot - 1))  # has where the key begins
        if key + AHEAD // 4 < keys:
            slot = _likely(h, key + AHEAD // 4)
            if slot >= 0:
                prefetch(address(h, KEYS) + key_start(h, slot))
        slot_of(h, key)


@jit
def _known_slot(h: int, row: int) -> Any:
    """The slot of a row's key, or -1 where it is not known yet."""
    return get(h, KEY_SLOT, get(h, KEY_INDEX, row))


@inlined
def look_ahead(h: int, row: int, rows: int) -> None:
    """Call for what the rows soon to come will touch."""
    if row + AHEAD < rows:
        prefetch(address(h, ID_TABLE) + block_of(h, ID_TABLE, np.uint64(get(h, ID_HASH, row + AHEAD))))
        slot = _known_slot(h, row + AHEAD)
        if slot >= 0:
            _call_for_row(h, slot)
        else:  # a new key is looked for once more, as a row before may have it too, and then entered
            hash_ = np.uint64(get(h, KEY_HASH, get(h, KEY_INDEX, row + AHEAD)))
            prefetch(address(h, KEY_TABLE) + block_of(h, KEY_TABLE, hash_))
    cursors = min(get(h, N_WINDOWS), SCOUTS_EACH)
    if row + FIRSTS < rows:
        slot, scouts = _known_slot(h, row + FIRSTS), _scouts(row + FIRSTS)
        if slot >= 0:
            call_for_record(h, get(h, TAIL, slot))
            if get(h, N_WINDOWS) > SCOUTS_EACH:  # else scouts call for all of them
                for k in range(get(h, N_BEGINNINGS)):
                    prefetch(row_of(h, get(h, FIRST_OF, slot, get(h, BEGINNING, k))))
            for k in range(get(h, LINKS)):
                value = get(h, VALUES, (row + FIRSTS) * get(h, COLUMNS) + get(h, LINK_COL, k))
                prefetch(address(h, VALUE_TABLE) + block_of(h, VALUE_TABLE, value_hash(slot, k, value)))
        for c in range(cursors):
            first = get(h, FIRST_OF, slot, c) if slot >= 0 else -1
            put(h, SCOUTS, scouts + c, first)
            call_for_record(h, first)
    if cursors and row + FIRSTS < rows:  # scouts of the rows before it are set, or none at the start of a batch
        for ahead in range(LAST_STEP, FIRSTS, STEP):
            _scout(h, row + ahead, cursors)


@jit
def _call_for_row(h: int, slot: int) -> None:
    """Call for a slot's row."""
    at, size = slot_row(h, slot), get(h, SLOT_BYTES)
    for line in range(0, size, CACHE_LINE):
        prefetch(at + line)
    prefetch(at + size - 1)  # a row begins anywhere in a line


@jit
def call_for_record(h: int, record: int) -> None:
    """Call for a record's row, which begins anywhere in a line."""
    at = row_of(h, record)
    prefetch(at)
    prefetch(at + get(h, RECORD_BYTES) - 1)


@jit
def _scouts(row: int) -> Any:
    """The number of the first scout of a row, which has one for each cursor."""
    return SCOUTS_EACH * (row & (AHEAD - 1))


@inlined
def _scout(h: int, row: int, cursors: int) -> None:
    """Call for the record after each scout that will leave its window when ``row``'s turn comes."""
    scouts, now = _scouts(row), get(h, CLOCK_MS, row)
    for c in range(cursors):
        r = get(h, SCOUTS, scouts + c)
        if r >= 0 and clock(h, r) <= now - get(h, WINDOW, c):
            r = after(h, r)
            put(h, SCOUTS, scouts + c, r)
            call_for_record(h, r)
