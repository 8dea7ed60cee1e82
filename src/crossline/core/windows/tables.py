"""Open addressing over stored bytes: ids to records, keys to slots, values to their last record.

A byte of the hash stands in a table of its own, so that a search reads one line of memory before it looks at
anything stored. It is read in groups; the table's first group stands after its end once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.core.windows.hashing import xxh64
from crossline.core.windows.header import (
    ID_END,
    ID_ITEM,
    ID_SIZE,
    ID_TAG,
    IDS,
    KEY_END,
    KEY_ITEM,
    KEY_SIZE,
    KEY_TAG,
    KEYS,
    LINK_COL,
    N_RECORDS,
    N_SLOTS,
    SCRATCH,
    SLOT,
    VALUE_ITEM,
    VALUE_SIZE,
    VALUE_TAG,
    clock,
    id_start,
    item,
    key_start,
    row_of,
    slot_row,
    tally,
    value_i,
    word,
)
from crossline.core.windows.memory import (
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

NO_SEED = np.uint64(0)
LOW = 0xFFFFFFFF
GROUP = 16  # bytes of a table read at once
AHEAD = 16  # steps by which memory is called for; a power of 2
_32 = np.uint64(32)


@jit
def bucket_of(hash_: Any, size: int) -> Any:
    """First bucket for a hash: its upper half scaled to the table, so that any size will do."""
    return np.int64(((hash_ >> _32) * np.uint64(size)) >> _32)


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


@jit
def _wrapped(b: int, size: int) -> Any:
    """Bucket ``b`` of a table that goes on at its start."""
    return b if b < size else b - size


@jit
def claim(tags: int, size: int, b: int, hash_: Any) -> None:
    """Take bucket ``b``, which is free."""
    store_8(tags + b, tag_of(hash_))
    if b < GROUP:
        store_8(tags + size + b, tag_of(hash_))


@jit
def free_bucket(tags: int, size: int, hash_: Any) -> Any:
    """Claim the first free bucket for ``hash_``."""
    b = bucket_of(hash_, size)
    while True:
        free = like_16(tags + b, 0)
        if free != 0:
            found = _wrapped(b + lowest(free), size)
            claim(tags, size, found, hash_)
            return found
        b += GROUP
        if b >= size:
            b -= size


@inlined
def find_id(h: int, slot: int, hash_: Any, at: int, length: int, since_ms: int) -> Any:
    """The free bucket for an id, or -1 where a record of this key with it and a clock of ``since_ms`` or later is held.

    The id stands at ``at``.
    """
    tags, size, tag = word(h, ID_TAG), word(h, ID_SIZE), tag_of(hash_)
    b = bucket_of(hash_, size)
    while True:
        free, same = like_16(tags + b, 0), like_16(tags + b, tag)
        same &= (free & -free) - 1  # those before the first free one
        while same != 0:
            r = load_i32(word(h, ID_ITEM) + 4 * _wrapped(b + lowest(same), size))
            row = row_of(h, r)
            if load_i32(row + SLOT) == slot and clock(h, r) >= since_ms:
                start = id_start(h, r)
                if load_u32(row + ID_END) - start == length and same_bytes(word(h, IDS) + start, at, length):
                    return -1
            same &= same - 1
        if free != 0:
            return _wrapped(b + lowest(free), size)
        b += GROUP
        if b >= size:
            b -= size


@jit
def put_key(h: int, hash_: Any, slot: int) -> None:
    """Enter a slot under the hash of its key."""
    b = free_bucket(word(h, KEY_TAG), word(h, KEY_SIZE), hash_)
    store_32(word(h, KEY_ITEM) + 4 * b, slot)


@jit
def find_key(h: int, hash_: Any, at: int, length: int) -> Any:
    """The slot of the key at ``at``, or -1."""
    tags, size, tag = word(h, KEY_TAG), word(h, KEY_SIZE), tag_of(hash_)
    b = bucket_of(hash_, size)
    while True:
        free, same = like_16(tags + b, 0), like_16(tags + b, tag)
        same &= (free & -free) - 1
        while same != 0:
            slot = load_i32(word(h, KEY_ITEM) + 4 * _wrapped(b + lowest(same), size))
            start = key_start(h, slot)
            if load_u32(slot_row(h, slot) + KEY_END) - start == length and same_bytes(
                word(h, KEYS) + start, at, length
            ):
                return slot
            same &= same - 1
        if free != 0:
            return -1
        b += GROUP
        if b >= size:
            b -= size


@jit
def value_hash(slot: int, link: int, value: int) -> Any:
    """Hash of a value of a link in a key."""
    x = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> _32) ^ (np.uint64(slot) << np.uint64(8)) ^ np.uint64(link)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> _32)


@jit
def put_value(h: int, hash_: Any, link: int, record: int) -> None:
    """Enter the last record of a value of a link."""
    b = free_bucket(word(h, VALUE_TAG), word(h, VALUE_SIZE), hash_)
    store_64(word(h, VALUE_ITEM) + 8 * b, (link << 32) | record)


@jit
def find_value(h: int, slot: int, link: int, value: int, hash_: Any) -> Any:
    """Address of the item (link, last record) of ``value`` (as the bits of an int64) in this key, or 0."""
    tags, size, tag, col = word(h, VALUE_TAG), word(h, VALUE_SIZE), tag_of(hash_), item(h, LINK_COL, link)
    b = bucket_of(hash_, size)
    while True:
        free, same = like_16(tags + b, 0), like_16(tags + b, tag)
        same &= (free & -free) - 1
        while same != 0:
            at = word(h, VALUE_ITEM) + 8 * _wrapped(b + lowest(same), size)
            known = load_i64(at)
            r = known & LOW
            if (known >> 32) == link and load_i32(row_of(h, r) + SLOT) == slot and value_i(h, r, col) == value:
                return at
            same &= same - 1
        if free != 0:
            return 0
        b += GROUP
        if b >= size:
            b -= size


@jit
def rebuild_ids(h: int) -> None:
    """Enter every record into the (cleared) table of ids, its bucket called for some steps before."""
    start, ids, tags, items, size = 0, word(h, IDS), word(h, ID_TAG), word(h, ID_ITEM), word(h, ID_SIZE)
    ring, count = word(h, SCRATCH), tally(h, N_RECORDS)
    for r in range(count + AHEAD):
        place = ring + 8 * (r & (AHEAD - 1))
        if r >= AHEAD:
            b = free_bucket(tags, size, np.uint64(load_i64(place)))
            store_32(items + 4 * b, r - AHEAD)
        if r < count:
            end = load_u32(row_of(h, r) + ID_END)
            hash_ = xxh64(ids + start, ids + end, NO_SEED)
            start = end
            store_64(place, np.int64(hash_))
            prefetch(tags + bucket_of(hash_, size))
            prefetch(items + 4 * bucket_of(hash_, size))


@jit
def rebuild_keys(h: int) -> None:
    """Enter every slot into the (cleared) table of keys."""
    at, keys = 0, word(h, KEYS)
    for slot in range(tally(h, N_SLOTS)):
        end = load_u32(slot_row(h, slot) + KEY_END)
        put_key(h, xxh64(keys + at, keys + end, NO_SEED), slot)
        at = end
