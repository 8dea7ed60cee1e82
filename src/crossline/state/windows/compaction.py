"""Compaction: dropping records that no future window can hold, and keys without records; rebuilding links."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit, prefetch
from crossline.state.memory.addresses import after, clock, enters, id_start, row_of, slot_row, value_i
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.records.hash_tables import AHEAD, copy_bytes, put_value, value_hash
from crossline.state.records.lists import chain_in, tie_values
from crossline.state.windows.prefetch import SCOUTS_EACH
from crossline.state.windows.rolling_window import drop_left


@jit
def count_dead(h: int, cutoff_ms: int) -> Any:
    """How many records at least have a clock at or before ``cutoff_ms``.

    Those in an unbroken run from the oldest are counted on from the last time. All are looked at only where there are
    twice as many records as at the last such look: a single record from the future must not keep the dead for ever.
    """
    first, end = get(h, at.FIRST_RECORD), get(h, at.N_RECORDS)
    r = max(get(h, at.N_DEAD), first)
    while r < end and not lives(h, r, cutoff_ms):
        r += 1
    put(h, at.N_DEAD, r)
    dead, count = r - first, end - first
    if 2 * dead >= count or count < 2 * get(h, at.N_LOOKED_AT):
        return dead
    put(h, at.N_LOOKED_AT, count)
    for later in range(r, end):
        dead += 0 if lives(h, later, cutoff_ms) else 1
    return dead


@jit
def lives(h: int, r: int, cutoff_ms: int) -> Any:
    """Whether a record from FIRST_RECORD on is not dropped, and has a clock after ``cutoff_ms``."""
    return get(h, at.SLOT, r) >= 0 and clock(h, r) > cutoff_ms


@jit
def throw_out(h: int, cutoff_ms: int) -> None:
    """Keep only records with a clock after ``cutoff_ms``. Tables must be built anew afterwards."""
    slots = get(h, at.N_SLOTS)
    for slot in range(slots):
        if slot + AHEAD < slots:
            for c in range(min(get(h, at.N_WINDOWS), SCOUTS_EACH)):
                prefetch(row_of(h, get(h, at.FIRST_OF, slot + AHEAD, c)))
        for c in range(get(h, at.N_WINDOWS)):
            drop_left(h, slot, c, cutoff_ms + 1)
    live = 0
    for r in range(get(h, at.FIRST_RECORD), get(h, at.N_RECORDS)):
        stays = lives(h, r, cutoff_ms)
        put(h, at.NUMBER, r, live if stays else -1)
        live += 1 if stays else 0
    _close_slots(h)
    _close_records(h, live)


@jit
def _renumber(h: int, named: int) -> None:
    """Give the record named at address ``named`` its new number; -1 where it is thrown out."""
    r = load(named, at.NUMBERED)
    if r >= 0:
        store(named, at.NUMBERED, get(h, at.NUMBER, r) if r >= get(h, at.FIRST_RECORD) else -1)


@jit
def _close_slots(h: int) -> None:
    """Close the ranks of the keys whose last record lives."""
    live, key_bytes, start = 0, 0, 0
    keys, size = address(h, at.KEYS), get(h, at.SLOT_BYTES)
    slots = get(h, at.N_SLOTS)
    for slot in range(slots):
        if slot + AHEAD < slots:
            prefetch(address(h, at.NUMBER) + 4 * max(get(h, at.TAIL, slot + AHEAD), get(h, at.FIRST_RECORD)))
        row = slot_row(h, slot)
        end = load(row, at.KEY_END)
        tail = load(row, at.TAIL)
        if tail < 0 or get(h, at.NUMBER, tail) < 0:
            put(h, at.SLOT_NUMBER, slot, -1)
        else:
            for k in range(get(h, at.SLOT_LINKS)):
                _renumber(h, row + get(h, at.SLOT_LINK_AT, k))
            put(h, at.SLOT_NUMBER, slot, live)
            copy_bytes(keys + start, keys + key_bytes, end - start)
            key_bytes += end - start
            store(row, at.KEY_END, key_bytes)
            copy_bytes(row, slot_row(h, live), size)
            live += 1
        start = end
    put(h, at.N_SLOTS, live)
    put(h, at.N_VACANT, 0)
    put(h, at.N_KEY_BYTES, key_bytes)


@inlined
def _look_ahead(h: int, r: int) -> None:
    """Call for what the records after ``r`` will touch; they have their old numbers yet."""
    prefetch(address(h, at.SLOT_NUMBER) + 4 * get(h, at.SLOT, r + AHEAD))
    row = row_of(h, r + AHEAD // 2)
    before = load(row, at.BEFORE)
    if load(row, at.SLOT) >= 0 and (before < 0 or get(h, at.NUMBER, before) < 0):
        prefetch(slot_row(h, get(h, at.SLOT_NUMBER, load(row, at.SLOT))))


@jit
def _close_records(h: int, live: int) -> None:
    """Close the ranks of the living records, in their order."""
    first, records = get(h, at.FIRST_RECORD), get(h, at.N_RECORDS)
    id_bytes, start, ids, size = 0, id_start(h, first), address(h, at.IDS), get(h, at.RECORD_BYTES)
    for r in range(first, records):
        if r + AHEAD < records:
            _look_ahead(h, r)
        row, end = row_of(h, r), get(h, at.ID_END, r)
        to = get(h, at.NUMBER, r)
        if to >= 0:
            copy_bytes(ids + start, ids + id_bytes, end - start)
            id_bytes += end - start
            store(row, at.ID_END, id_bytes)
            slot = get(h, at.SLOT_NUMBER, load(row, at.SLOT))
            store(row, at.SLOT, slot)
            for k in range(get(h, at.RECORD_LINKS)):
                _renumber(h, row + get(h, at.RECORD_LINK_AT, k))
            if load(row, at.BEFORE) < 0:
                put(h, at.HEAD, slot, to)
            copy_bytes(row, row_of(h, to), size)
        start = end
    put(h, at.FIRST_RECORD, 0)
    put(h, at.N_RECORDS, live)
    put(h, at.N_LOOKED_AT, live + 4096)
    put(h, at.N_DEAD, 0)
    put(h, at.N_ID_BYTES, id_bytes)


@jit
def rebuild_values(h: int) -> None:
    """Enter the last record of every value into the (cleared) table of values."""
    known = 0
    for r in range(get(h, at.FIRST_RECORD), get(h, at.N_RECORDS)):
        if get(h, at.SLOT, r) < 0:
            continue
        for k in range(get(h, at.LINKS)):
            if get(h, at.SAME_AFTER, r, k) < 0 and enters(h, r, get(h, at.LINK_FILTER, k)):
                slot = get(h, at.SLOT, r)
                put_value(h, value_hash(slot, k, value_i(h, r, get(h, at.LINK_COL, k))), k, r)
                known += 1
    put(h, at.N_VALUES, known)


@jit
def relink(h: int) -> None:
    """Build chains and links between like values anew, key by key in the order of its list.

    The table of values is cleared.
    """
    put(h, at.N_VALUES, 0)
    for slot in range(get(h, at.N_SLOTS)):
        r = get(h, at.HEAD, slot)
        while r >= 0:
            chain_in(h, slot, r, True)
            tie_values(h, slot, r)
            r = after(h, r)
