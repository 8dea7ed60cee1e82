"""Open addressing over stored bytes: ids to records, keys to slots, values to their last record.

A table is blocks of 64 bytes, a line of memory: a byte of the hash for each of its places (0: free), then their items.
A search reads one block, mostly, before it looks at anything stored. An item goes to the first free place from its
hash's block on; each block that it had to pass counts it, in a byte of its own, until it is erased. So a search ends at
a block that nothing has passed, and a place is free again at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import inlined, jit, like_16, lowest, prefetch
from crossline.state.memory.addresses import clock, id_start, key_start, row_of, value_i, word
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.memory.hashing import xxh64
from crossline.state.memory.layout import (
    BLOCKS_OF,
    BYTE,
    EIGHT_BYTES,
    FIRST_RECORD,
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
    LINKED,
    N_RECORDS,
    N_SLOTS,
    NUMBERED,
    PUSHED,
    SCRATCH,
    SLOT,
    SPLIT_OF,
    TAG,
    VALUE_BLOCKS,
    VALUE_TABLE,
)

NO_SEED = np.uint64(0)
LOW = 0xFFFFFFFF
BLOCK = 64
PLACES, PLACES_MASK, ITEMS_AT, PUSHED_AT = 12, 0xFFF, 12, 60  # in a block of items of 4 bytes
VALUE_PLACES, VALUE_PLACES_MASK, VALUE_ITEMS_AT, VALUE_PUSHED_AT = 7, 0x7F, 8, 7  # of items of 8 bytes
PUSHED_MAX = 255  # from here on the byte stays as it is
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
def next_block(h: int, name: int, b: int) -> Any:
    """Where the block after the one that begins at ``b`` begins, in the table of word ``name``."""
    b += BLOCK
    return b if b < word(h, name + BLOCKS_OF) * BLOCK else 0


@jit
def push(at: int) -> None:
    """One more item has passed the block whose byte of these is at ``at``."""
    count = load(at, PUSHED)
    if count < PUSHED_MAX:
        store(at, PUSHED, count + 1)


@jit
def pull(at: int) -> None:
    """One item that has passed a block is gone (see ``push``)."""
    count = load(at, PUSHED)
    if count < PUSHED_MAX:
        store(at, PUSHED, count - 1)


@jit
def claim(h: int, name: int, place: int, hash_: Any, item_: int) -> None:
    """Put an item at a free place, the first on the way of its hash, in the table of word ``name``."""
    table, b = word(h, name), block_of(h, name, hash_)
    while b != place & -BLOCK:
        push(table + b + PUSHED_AT)
        b = next_block(h, name, b)
    store(table + place, TAG, tag_of(hash_))
    store(item_of(table, place), NUMBERED, item_)


@jit
def erase(h: int, name: int, hash_: Any, item_: int) -> None:
    """Take an item, which is there, out of the table of word ``name``."""
    table, b, tag = word(h, name), block_of(h, name, hash_), tag_of(hash_)
    while True:
        same = like_16(table + b, tag) & PLACES_MASK
        while same != 0:
            place = b + lowest(same)
            if load(item_of(table, place), NUMBERED) == item_:
                store(table + place, TAG, 0)
                return
            same &= same - 1
        pull(table + b + PUSHED_AT)
        b = next_block(h, name, b)


@inlined
def enter(h: int, name: int, hash_: Any, item_: int) -> None:
    """Put an item at the first free place for its hash in the table of word ``name``."""
    table, b = word(h, name), block_of(h, name, hash_)
    while True:
        free = like_16(table + b, 0) & PLACES_MASK
        if free != 0:
            place = b + lowest(free)
            store(table + place, TAG, tag_of(hash_))
            store(item_of(table, place), NUMBERED, item_)
            return
        push(table + b + PUSHED_AT)
        b = next_block(h, name, b)


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
        if load(a + k, EIGHT_BYTES) != load(b + k, EIGHT_BYTES):
            return False
        k += 8
    while k < length:
        if load(a + k, BYTE) != load(b + k, BYTE):
            return False
        k += 1
    return True


@jit
def copy_bytes(source: int, target: int, length: int) -> None:
    """Ascending, so that ranges may overlap where the target is lower."""
    k = 0
    while k + 8 <= length:
        store(target + k, EIGHT_BYTES, load(source + k, EIGHT_BYTES))
        k += 8
    while k < length:
        store(target + k, BYTE, load(source + k, BYTE))
        k += 1


@inlined
def find_id(h: int, slot: int, hash_: Any, at: int, length: int, since_ms: int) -> Any:
    """The free place for an id, or -1 where a record of this key with it and a clock of ``since_ms`` or later is held.

    The id stands at ``at``.
    """
    table, blocks, tag, place = address(h, ID_TABLE), get(h, ID_BLOCKS), tag_of(hash_), -1
    b = block_of(h, ID_TABLE, hash_)
    while True:
        same = like_16(table + b, tag) & PLACES_MASK
        while same != 0:
            r = load(item_of(table, b + lowest(same)), NUMBERED)
            row = row_of(h, r)
            if load(row, SLOT) == slot and clock(h, r) >= since_ms:
                start = id_start(h, r)
                if load(row, ID_END) - start == length and same_bytes(address(h, IDS) + start, at, length):
                    return -1
            same &= same - 1
        if place < 0:
            free = like_16(table + b, 0) & PLACES_MASK
            if free != 0:
                place = b + lowest(free)
        if place >= 0 and load(table + b + PUSHED_AT, PUSHED) == 0:
            return place
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@jit
def find_key(h: int, hash_: Any, at: int, length: int) -> Any:
    """The slot of the key at ``at``, or -1."""
    table, blocks, tag = address(h, KEY_TABLE), get(h, KEY_BLOCKS), tag_of(hash_)
    b = block_of(h, KEY_TABLE, hash_)
    while True:
        same = like_16(table + b, tag) & PLACES_MASK
        while same != 0:
            slot = load(item_of(table, b + lowest(same)), NUMBERED)
            start = key_start(h, slot)
            if get(h, KEY_END, slot) - start == length and same_bytes(address(h, KEYS) + start, at, length):
                return slot
            same &= same - 1
        if load(table + b + PUSHED_AT, PUSHED) == 0:
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
    table, blocks = address(h, VALUE_TABLE), get(h, VALUE_BLOCKS)
    b = block_of(h, VALUE_TABLE, hash_)
    while True:
        free = like_16(table + b, 0) & VALUE_PLACES_MASK
        if free != 0:
            place = b + lowest(free)
            store(table + place, TAG, tag_of(hash_))
            store(value_item_of(table, place), LINKED, (link << 32) | record)
            return
        push(table + b + VALUE_PUSHED_AT)
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@jit
def erase_value(h: int, hash_: Any, item_: int) -> None:
    """As ``erase``, in the table of values."""
    table, b, tag = address(h, VALUE_TABLE), block_of(h, VALUE_TABLE, hash_), tag_of(hash_)
    while True:
        same = like_16(table + b, tag) & VALUE_PLACES_MASK
        while same != 0:
            place = b + lowest(same)
            if load(value_item_of(table, place), LINKED) == item_:
                store(table + place, TAG, 0)
                return
            same &= same - 1
        pull(table + b + VALUE_PUSHED_AT)
        b = next_block(h, VALUE_TABLE, b)


@jit
def find_value(h: int, slot: int, link: int, value: int, hash_: Any) -> Any:
    """Address of the item (link, last record) of ``value`` (as the bits of an int64) in this key, or 0."""
    table, blocks, tag, col = address(h, VALUE_TABLE), get(h, VALUE_BLOCKS), tag_of(hash_), get(h, LINK_COL, link)
    b = block_of(h, VALUE_TABLE, hash_)
    while True:
        same = like_16(table + b, tag) & VALUE_PLACES_MASK
        while same != 0:
            at = value_item_of(table, b + lowest(same))
            known = load(at, LINKED)
            r = known & LOW
            if (known >> 32) == link and get(h, SLOT, r) == slot and value_i(h, r, col) == value:
                return at
            same &= same - 1
        if load(table + b + VALUE_PUSHED_AT, PUSHED) == 0:
            return 0
        b += BLOCK
        if b == blocks * BLOCK:
            b = 0


@inlined
def _enter_all(h: int, end_at: int, first: int, count: int, pool: int, start: int, name: int) -> None:
    """Enter all rows under the hash of their bytes in ``pool``, the block of each called for some steps before.

    ``end_at``: the field of where a row's bytes end. ``start``: where those of row ``first`` begin, the first held.
    """
    start, table = pool + start, word(h, name)
    for r in range(first, count + AHEAD):
        ring = r & (AHEAD - 1)
        if r >= first + AHEAD and (name != ID_TABLE or get(h, SLOT, r - AHEAD) >= 0):
            enter(h, name, np.uint64(get(h, SCRATCH, ring)), r - AHEAD)
        if r < count:
            end = pool + get(h, end_at, r)
            hash_ = xxh64(start, end, NO_SEED)
            start = end
            put(h, SCRATCH, ring, np.int64(hash_))
            prefetch(table + block_of(h, name, hash_))


@jit
def rebuild_ids(h: int) -> None:
    """Enter every record into the (cleared) table of ids."""
    first = get(h, FIRST_RECORD)
    _enter_all(h, ID_END, first, get(h, N_RECORDS), address(h, IDS), id_start(h, first), ID_TABLE)


@jit
def rebuild_keys(h: int) -> None:
    """Enter every slot into the (cleared) table of keys."""
    _enter_all(h, KEY_END, 0, get(h, N_SLOTS), address(h, KEYS), 0, KEY_TABLE)
