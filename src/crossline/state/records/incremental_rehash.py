"""Tables that grow a few blocks at a time, so that no batch waits until all of one is filled anew.

A hash's first block is its upper half scaled to the number of blocks. A larger number of blocks puts none nearer to the
beginning, so a table grows where it is, from its end: below the split, blocks are found as before, at and above it, by
the new number. A step moves the split down over some blocks. It takes all items out of these, and on up to a block that
nothing has passed; and puts them in again under the new split. Searches look in one place all the while.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import jit, prefetch
from crossline.state.memory.addresses import id_start, key_start, row_of, slot_row, value_i, word
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.memory.hashing import xxh64
from crossline.state.memory.layout import (
    BLOCKS_OF,
    EIGHT_BYTES,
    ID_END,
    ID_TABLE,
    IDS,
    KEY_END,
    KEYS,
    LINK_COL,
    LINKED,
    MOVE_COUNT,
    MOVE_FROM,
    MOVED,
    MOVED_HASH,
    NUMBERED,
    PUSHED,
    SLOT,
    TAG,
    VALUE_TABLE,
)
from crossline.state.records.hash_tables import (
    AHEAD,
    BLOCK,
    LOW,
    NO_SEED,
    PLACES,
    PUSHED_AT,
    VALUE_PLACES,
    VALUE_PUSHED_AT,
    block_of,
    enter,
    item_of,
    next_block,
    pull,
    put_value,
    value_hash,
    value_item_of,
)


@jit
def run_end(h: int, name: int, block: int) -> Any:
    """The first block from ``block`` on (after the last comes the first) that nothing has passed."""
    table, blocks = word(h, name), word(h, name + BLOCKS_OF)
    pushed_at = VALUE_PUSHED_AT if name == VALUE_TABLE else PUSHED_AT
    for _ in range(blocks):
        if load(table + BLOCK * block + pushed_at, PUSHED) == 0:
            return block
        block = block + 1 if block + 1 < blocks else 0
    return block


@jit
def take_out(h: int, name: int, count: int) -> None:
    """Take the items out of ``count`` blocks from MOVE_FROM on, and note them with their hashes."""
    table, blocks, n = word(h, name), word(h, name + BLOCKS_OF), 0
    b = get(h, MOVE_FROM)
    for _ in range(count):
        at = table + BLOCK * b
        for k in range(VALUE_PLACES if name == VALUE_TABLE else PLACES):
            if load(at + k, TAG) != 0:
                item_at = value_item_of(table, BLOCK * b + k) if name == VALUE_TABLE else item_of(table, BLOCK * b + k)
                put(h, MOVED, n, load(item_at, LINKED) if name == VALUE_TABLE else load(item_at, NUMBERED))
                n += 1
        for k in range(0, BLOCK, 8):
            store(at + k, EIGHT_BYTES, 0)
        b = b + 1 if b + 1 < blocks else 0
    put(h, MOVE_COUNT, n)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(_row_address(h, name, get(h, MOVED, i + AHEAD)))
        if i + AHEAD // 2 < n and name != VALUE_TABLE:
            prefetch(_bytes_at(h, name, get(h, MOVED, i + AHEAD // 2)))
        hash_ = _hash_of(h, name, get(h, MOVED, i))
        put(h, MOVED_HASH, i, np.int64(hash_))
        _pull_before(h, name, block_of(h, name, np.uint64(hash_)), count)


@jit
def _pull_before(h: int, name: int, b: int, count: int) -> None:
    """An item whose block begins at ``b`` was taken out: blocks that it passed before the ``count`` from MOVE_FROM."""
    blocks, first = word(h, name + BLOCKS_OF), get(h, MOVE_FROM)
    pushed_at = VALUE_PUSHED_AT if name == VALUE_TABLE else PUSHED_AT
    while (b // BLOCK - first) % blocks >= count:
        pull(word(h, name) + b + pushed_at)
        b = next_block(h, name, b)


@jit
def _row_address(h: int, name: int, item_: int) -> Any:
    """The row that an item of the table stands for."""
    if name == VALUE_TABLE:
        return row_of(h, item_ & LOW)
    return row_of(h, item_) if name == ID_TABLE else slot_row(h, item_)


@jit
def _bytes_at(h: int, name: int, item_: int) -> Any:
    """Where the bytes of an item's id or key are."""
    return address(h, IDS) + id_start(h, item_) if name == ID_TABLE else address(h, KEYS) + key_start(h, item_)


@jit
def _hash_of(h: int, name: int, item_: int) -> Any:
    """The hash of an item of the table."""
    if name == VALUE_TABLE:
        record, link = item_ & LOW, item_ >> 32
        at = row_of(h, record)
        return value_hash(load(at, SLOT), link, value_i(h, record, get(h, LINK_COL, link)))
    by_id = name == ID_TABLE
    end = address(h, IDS) + get(h, ID_END, item_) if by_id else address(h, KEYS) + get(h, KEY_END, item_)
    return xxh64(_bytes_at(h, name, item_), end, NO_SEED)


@jit
def put_in(h: int, name: int) -> None:
    """Insert the removed items again."""
    count = get(h, MOVE_COUNT)
    for i in range(count):
        if i + AHEAD < count:
            prefetch(word(h, name) + block_of(h, name, np.uint64(get(h, MOVED_HASH, i + AHEAD))))
        item_, hash_ = get(h, MOVED, i), np.uint64(get(h, MOVED_HASH, i))
        if name == VALUE_TABLE:
            put_value(h, hash_, item_ >> 32, item_ & LOW)
        else:
            enter(h, name, hash_, item_)
