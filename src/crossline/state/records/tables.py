"""Open addressing over stored bytes: ids to records, keys to slots, values to their last record.

A table is blocks of 64 bytes, a line of memory: a byte of the hash for each of its places (0: free), then their items.
A search reads one block, mostly, before it looks at anything stored. A block is filled from its first place on; what
finds no room goes to the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import (
    inlined,
    jit,
    like_16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    lowest,
    prefetch,
    store_8,
    store_32,
    store_64,
)
from crossline.state.memory.hashing import xxh64
from crossline.state.memory.header import clock, id_start, item, key_start, row_of, slot_row, tally, value_i, word
from crossline.state.memory.layout import (
    BLOCKS_OF,
    FORMER_OF,
    ID_BLOCKS,
    ID_END,
    ID_TABLE,
    IDS,
    KEY_BLOCKS,
    KEY_END,
    KEY_TABLE,
    KEYS,
    LINK_COL,
    N_RECORDS,
    N_SLOTS,
    RECORD_BYTES,
    RECORDS,
    SCRATCH,
    SLOT,
    SLOT_BYTES,
    SLOTS,
    SPLIT_OF,
    VALUE_BLOCKS,
    VALUE_TABLE,
)

NO_SEED = np.uint64(0)
LOW = 0xFFFFFFFF
BLOCK = 64
PLACES, PLACES_MASK, ITEMS_AT = 12, 0xFFF, 12  # in a block of items of 4 bytes
VALUE_PLACES, VALUE_PLACES_MASK, VALUE_ITEMS_AT = 7, 0x7F, 8  # of items of 8 bytes
AHEAD = 16  # steps by which memory is called for; a power of 2
_32 = np.uint64(32)


@jit
def block_of(h: int, table: int, hash_: Any) -> Any:
    """Where in the table of word ``table`` the first block for a hash begins.

    The upper half of the hash scaled to the number of blocks; while the table grows, to the former one where it is not
    past the split yet (see ``growth``).
    """
    upper = np.int64(hash_ >> _32)
    blocks = word(h, table + (FORMER_OF if upper < word(h, table + SPLIT_OF) else BLOCKS_OF))
    return ((upper * blocks) >> 32) * BLOCK


@jit
def item_of(table: int, place: int) -> Any:
    """Address of the item of a place: of a block's first byte, plus the number of the place."""
    return table + (place & -BLOCK) + ITEMS_AT + 4 * (place & (BLOCK - 1))


@jit
def claim(table: int, place: int, hash_: Any, item_: int) -> None:
    """Put an item at a free place."""
    store_8(table + place, tag_of(hash_))
    store_32(item_of(table, place), item_)


@inlined
def put(h: int, name: int, hash_: Any, item_: int) -> None:
    """Put an item at the first free place for its hash in the table of word ``name``."""
    table, blocks = word(h, name), word(h, name + BLOCKS_OF)
    b = block_of(h, name, hash_)
    while True:
        free = like_16(table + b, 0) & PLACES_MASK
        if free != 0:
            claim(table, b + lowest(free), hash_, item_)
            return
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@jit
def tag_of(hash_: Any) -> Any:
    """The byte of a hash that stands in a table; never 0."""
    tag = np.int64(hash_ & np.uint64(0xFF))
    return tag if tag != 0 else 1


@jit
def same_bytes(a: int, b: int, length: int) -> Any:
    """Whether ``length`` bytes at two addresses are the same."""
    k = 0
    while k + 8 <= length:
        if load_i64(a + k) != load_i64(b + k):
            return False
        k += 8
    while k < length:
        if load_u8(a + k) != load_u8(b + k):
            return False
        k += 1
    return True


@jit
def copy_bytes(source: int, target: int, length: int) -> None:
    """Ascending, so that ranges may overlap where the target is lower."""
    k = 0
    while k + 8 <= length:
        store_64(target + k, load_i64(source + k))
        k += 8
    while k < length:
        store_8(target + k, load_u8(source + k))
        k += 1


@inlined
def find_id(h: int, slot: int, hash_: Any, at: int, length: int, since_ms: int) -> Any:
    """The free place for an id, or -1 where a record of this key with it and a clock of ``since_ms`` or later is held.

    The id stands at ``at``.
    """
    table, blocks, tag = word(h, ID_TABLE), word(h, ID_BLOCKS), tag_of(hash_)
    b = block_of(h, ID_TABLE, hash_)
    while True:
        same = like_16(table + b, tag) & PLACES_MASK
        while same != 0:
            r = load_i32(item_of(table, b + lowest(same)))
            row = row_of(h, r)
            if load_i32(row + SLOT) == slot and clock(h, r) >= since_ms:
                start = id_start(h, r)
                if load_u32(row + ID_END) - start == length and same_bytes(word(h, IDS) + start, at, length):
                    return -1
            same &= same - 1
        free = like_16(table + b, 0) & PLACES_MASK
        if free != 0:
            return b + lowest(free)
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@jit
def find_key(h: int, hash_: Any, at: int, length: int) -> Any:
    """The slot of the key at ``at``, or -1."""
    table, blocks, tag = word(h, KEY_TABLE), word(h, KEY_BLOCKS), tag_of(hash_)
    b = block_of(h, KEY_TABLE, hash_)
    while True:
        same = like_16(table + b, tag) & PLACES_MASK
        while same != 0:
            slot = load_i32(item_of(table, b + lowest(same)))
            start = key_start(h, slot)
            if load_u32(slot_row(h, slot) + KEY_END) - start == length and same_bytes(
                word(h, KEYS) + start, at, length
            ):
                return slot
            same &= same - 1
        if like_16(table + b, 0) & PLACES_MASK != 0:
            return -1
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@jit
def value_hash(slot: int, link: int, value: int) -> Any:
    """Hash of a value of a link in a key."""
    x = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> _32) ^ (np.uint64(slot) << np.uint64(8)) ^ np.uint64(link)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> _32)


@jit
def value_item_of(table: int, place: int) -> Any:
    """As ``item_of``, in the table of values."""
    return table + (place & -BLOCK) + VALUE_ITEMS_AT + 8 * (place & (BLOCK - 1))


@jit
def put_value(h: int, hash_: Any, link: int, record: int) -> None:
    """Enter the last record of a value of a link."""
    table, blocks = word(h, VALUE_TABLE), word(h, VALUE_BLOCKS)
    b = block_of(h, VALUE_TABLE, hash_)
    while True:
        free = like_16(table + b, 0) & VALUE_PLACES_MASK
        if free != 0:
            place = b + lowest(free)
            store_8(table + place, tag_of(hash_))
            store_64(value_item_of(table, place), (link << 32) | record)
            return
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@jit
def find_value(h: int, slot: int, link: int, value: int, hash_: Any) -> Any:
    """Address of the item (link, last record) of ``value`` (as the bits of an int64) in this key, or 0."""
    table, blocks, tag, col = word(h, VALUE_TABLE), word(h, VALUE_BLOCKS), tag_of(hash_), item(h, LINK_COL, link)
    b = block_of(h, VALUE_TABLE, hash_)
    while True:
        same = like_16(table + b, tag) & VALUE_PLACES_MASK
        while same != 0:
            at = value_item_of(table, b + lowest(same))
            known = load_i64(at)
            r = known & LOW
            if (known >> 32) == link and load_i32(row_of(h, r) + SLOT) == slot and value_i(h, r, col) == value:
                return at
            same &= same - 1
        if like_16(table + b, 0) & VALUE_PLACES_MASK != 0:
            return 0
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@inlined
def _enter_all(h: int, rows: int, width: int, end_at: int, count: int, pool: int, name: int) -> None:
    """Enter all rows under the hash of their bytes in ``pool``, the block of each called for some steps before."""
    start, ring, table = pool, word(h, SCRATCH), word(h, name)
    for r in range(count + AHEAD):
        kept = ring + 8 * (r & (AHEAD - 1))
        if r >= AHEAD:
            put(h, name, np.uint64(load_i64(kept)), r - AHEAD)
        if r < count:
            end = pool + load_u32(rows + r * width + end_at)
            hash_ = xxh64(start, end, NO_SEED)
            start = end
            store_64(kept, np.int64(hash_))
            prefetch(table + block_of(h, name, hash_))


@jit
def rebuild_ids(h: int) -> None:
    """Enter every record into the (cleared) table of ids."""
    records, width, count = word(h, RECORDS), word(h, RECORD_BYTES), tally(h, N_RECORDS)
    _enter_all(h, records, width, ID_END, count, word(h, IDS), ID_TABLE)


@jit
def rebuild_keys(h: int) -> None:
    """Enter every slot into the (cleared) table of keys."""
    slots, width, count = word(h, SLOTS), word(h, SLOT_BYTES), tally(h, N_SLOTS)
    _enter_all(h, slots, width, KEY_END, count, word(h, KEYS), KEY_TABLE)
