"""Throwing out records that no future window can hold, and keys that have no others; building links anew."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit, load_i32, load_u32, prefetch, store_32, store_64
from crossline.state.memory.header import (
    after,
    clock,
    enters,
    item,
    row_of,
    same_at,
    slot_row,
    tally,
    value_i,
    window_at,
    word,
)
from crossline.state.records.lists import chain_in, tie_values
from crossline.state.records.tables import AHEAD, copy_bytes, put_value, value_hash
from crossline.state.windows.ahead import SCOUTS_EACH
from crossline.state.windows.rolling import drop_left


@jit
def count_dead(h: int, cutoff_ms: int) -> Any:
    """How many records at least have a clock at or before ``cutoff_ms``.

    Those in an unbroken run from the oldest are counted on from the last time. All are looked at only where there are
    twice as many records as at the last such look: a single record from the future must not keep the dead for ever.
    """
    r, count = tally(h, at.N_DEAD), tally(h, at.N_RECORDS)
    while r < count and clock(h, r) <= cutoff_ms:
        r += 1
    store_64(h + 8 * at.N_DEAD, r)
    if 2 * r >= count or count < 2 * tally(h, at.N_LOOKED_AT):
        return r
    store_64(h + 8 * at.N_LOOKED_AT, count)
    for later in range(r, count):
        r += 1 if clock(h, later) <= cutoff_ms else 0
    return r


@jit
def throw_out(h: int, cutoff_ms: int) -> None:
    """Keep only records with a clock after ``cutoff_ms``. Tables must be built anew afterwards."""
    slots = tally(h, at.N_SLOTS)
    for slot in range(slots):
        if slot + AHEAD < slots:
            for c in range(min(word(h, at.CURSORS), SCOUTS_EACH)):
                prefetch(row_of(h, load_i32(window_at(h, slot + AHEAD, c) + at.FIRST_OF)))
        for c in range(word(h, at.CURSORS)):
            drop_left(h, slot, c, cutoff_ms + 1)
    number, live = word(h, at.NUMBER), 0
    for r in range(tally(h, at.N_RECORDS)):
        lives = clock(h, r) > cutoff_ms
        store_32(number + 4 * r, live if lives else -1)
        live += 1 if lives else 0
    _close_slots(h)
    _close_records(h, live)


@jit
def _renumber(h: int, address: int) -> None:
    """Give the record named at ``address`` its new number; -1 where it is thrown out."""
    r = load_i32(address)
    if r >= 0:
        store_32(address, load_i32(word(h, at.NUMBER) + 4 * r))


@jit
def _close_slots(h: int) -> None:
    """Close the ranks of the keys whose last record lives."""
    live, key_bytes, start = 0, 0, 0
    keys, size = word(h, at.KEYS), word(h, at.SLOT_BYTES)
    slots = tally(h, at.N_SLOTS)
    for slot in range(slots):
        if slot + AHEAD < slots:
            prefetch(word(h, at.NUMBER) + 4 * load_i32(slot_row(h, slot + AHEAD) + at.TAIL))
        row = slot_row(h, slot)
        end = load_u32(row + at.KEY_END)
        if load_i32(word(h, at.NUMBER) + 4 * load_i32(row + at.TAIL)) < 0:
            store_32(word(h, at.SLOT_NUMBER) + 4 * slot, -1)
        else:
            for k in range(word(h, at.SLOT_LINKS)):
                _renumber(h, row + item(h, at.SLOT_LINK_AT, k))
            store_32(word(h, at.SLOT_NUMBER) + 4 * slot, live)
            copy_bytes(keys + start, keys + key_bytes, end - start)
            key_bytes += end - start
            store_32(row + at.KEY_END, key_bytes)
            copy_bytes(row, slot_row(h, live), size)
            live += 1
        start = end
    store_64(h + 8 * at.N_SLOTS, live)
    store_64(h + 8 * at.N_KEY_BYTES, key_bytes)


@inlined
def _look_ahead(h: int, r: int) -> None:
    """Call for what the records after ``r`` will touch; they have their old numbers yet."""
    prefetch(word(h, at.SLOT_NUMBER) + 4 * load_i32(row_of(h, r + AHEAD) + at.SLOT))
    row = row_of(h, r + AHEAD // 2)
    before = load_i32(row + at.BEFORE)
    if before < 0 or load_i32(word(h, at.NUMBER) + 4 * before) < 0:
        prefetch(slot_row(h, load_i32(word(h, at.SLOT_NUMBER) + 4 * load_i32(row + at.SLOT))))


@jit
def _close_records(h: int, live: int) -> None:
    """Close the ranks of the living records, in their order."""
    id_bytes, start, ids, size = 0, 0, word(h, at.IDS), word(h, at.RECORD_BYTES)
    records = tally(h, at.N_RECORDS)
    for r in range(records):
        if r + AHEAD < records:
            _look_ahead(h, r)
        row, end = row_of(h, r), load_u32(row_of(h, r) + at.ID_END)
        to = load_i32(word(h, at.NUMBER) + 4 * r)
        if to >= 0:
            copy_bytes(ids + start, ids + id_bytes, end - start)
            id_bytes += end - start
            store_32(row + at.ID_END, id_bytes)
            slot = load_i32(word(h, at.SLOT_NUMBER) + 4 * load_i32(row + at.SLOT))
            store_32(row + at.SLOT, slot)
            for k in range(word(h, at.RECORD_LINKS)):
                _renumber(h, row + item(h, at.RECORD_LINK_AT, k))
            if load_i32(row + at.BEFORE) < 0:
                store_32(slot_row(h, slot) + at.HEAD, to)
            copy_bytes(row, row_of(h, to), size)
        start = end
    store_64(h + 8 * at.N_RECORDS, live)
    store_64(h + 8 * at.N_LOOKED_AT, live + 4096)
    store_64(h + 8 * at.N_DEAD, 0)
    store_64(h + 8 * at.N_ID_BYTES, id_bytes)


@jit
def rebuild_values(h: int) -> None:
    """Enter the last record of every value into the (cleared) table of values."""
    known = 0
    for r in range(tally(h, at.N_RECORDS)):
        for k in range(word(h, at.LINKS)):
            if load_i32(same_at(h, r, k) + at.SAME_AFTER) < 0 and enters(h, r, item(h, at.LINK_ENTRY, k)):
                slot = load_i32(row_of(h, r) + at.SLOT)
                put_value(h, value_hash(slot, k, value_i(h, r, item(h, at.LINK_COL, k))), k, r)
                known += 1
    store_64(h + 8 * at.N_VALUES, known)


@jit
def relink(h: int) -> None:
    """Build chains and links between like values anew, key by key in the order of its list.

    The table of values is cleared.
    """
    store_64(h + 8 * at.N_VALUES, 0)
    for slot in range(tally(h, at.N_SLOTS)):
        r = load_i32(slot_row(h, slot) + at.HEAD)
        while r >= 0:
            chain_in(h, slot, r, True)
            tie_values(h, slot, r)
            r = after(h, r)
