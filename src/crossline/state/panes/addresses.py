"""How compiled code reaches records, panes, cursors and running aggregates."""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import inlined, jit, prefetch
from crossline.state.memory.fields import get, load
from crossline.state.panes import layout as at
from crossline.state.panes.heap import block
from crossline.state.panes.key_table import slot_row
from crossline.state.panes.program import SKETCHED

# A place of a pane: the block of its chunk, and its number in it. A chunk begins with the blocks before and after it.
PLACE_BITS = 4
IN_CHUNK = (1 << PLACE_BITS) - 1
PANES_AT = at.A_CHUNK.bytes
WINDOW_BYTES, ACC_BYTES = at.A_WINDOW.bytes, at.AN_ACC.bytes


@jit
def window_at(row: int, c: int) -> Any:
    """Address of cursor ``c`` of the slot at ``row``."""
    return row + at.WINDOW_AT + WINDOW_BYTES * c


@jit
def acc_at(h: int, row: int, a: int) -> Any:
    """Address of running aggregate ``a``."""
    return row + get(h, at.ACCS_AT) + ACC_BYTES * a


@jit
def sat_at(h: int, slot: int, byte: int) -> Any:
    """Address of 8 bits of lines."""
    return slot_row(h, slot) + get(h, at.SAT_AT) + byte


@inlined
def record_at(h: int, row: int, k: int) -> Any:
    """Address of the ``k``-th record of the slot at ``row``; its clock stands first."""
    return block(h, load(row, at.RAW)) + get(h, at.ROW_BYTES) * (load(row, at.RAW_HEAD) + k)


@jit
def value_at(record: int, column: int) -> Any:
    """Address of a record's value."""
    return record + 8 + 8 * column


@inlined
def enters(h: int, record: int, entry: int) -> Any:
    """Whether the record is in entry number ``entry``."""
    if get(h, at.BITS_WORDS) == 0:
        return True
    return (load(record + 8 + 8 * get(h, at.COLUMNS) + 8 * (entry >> 6), at.FILTER_BITS) >> (entry & 63)) & 1 != 0


@jit
def pane_at(h: int, place: int) -> Any:
    """Address of the pane at a place."""
    return block(h, place >> PLACE_BITS) + PANES_AT + get(h, at.PANE_BYTES) * (place & IN_CHUNK)


@jit
def number_at(h: int, row: int, place: int) -> Any:
    """The number of the pane at a place: its begin, over the resolution."""
    return load(row, at.BASE) + load(pane_at(h, place), at.PANE_NUMBER)


@jit
def next_place(h: int, place: int) -> Any:
    """The place after; that of the end stands in the last chunk even where this is full."""
    if (place & IN_CHUNK) + 1 < get(h, at.CHUNK_PANES):
        return place + 1
    after = load(block(h, place >> PLACE_BITS), at.CHUNK_AFTER)
    return place + 1 if after == 0 else after << PLACE_BITS


@jit
def place_before(h: int, place: int) -> Any:
    """The place before one that is not the first."""
    if place & IN_CHUNK:
        return place - 1
    return (load(block(h, place >> PLACE_BITS), at.CHUNK_BEFORE) << PLACE_BITS) + get(h, at.CHUNK_PANES) - 1


@jit
def part_at(h: int, pane: int, part: int) -> Any:
    """Address of a part of a pane."""
    return pane + get(h, at.PART_AT, part)


@jit
def call_slot(h: int, slot: int) -> None:
    """Call for a slot's row: its fields, and its first cursors and what lines remember."""
    row = slot_row(h, slot)
    prefetch(row)
    prefetch(row + 64)
    prefetch(row + get(h, at.SLOT_BYTES) - 8)


@inlined
def call_ends(h: int, row: int) -> None:
    """Call for the first record and the first and last pane of the slot at ``row``."""
    prefetch(record_at(h, row, 0))
    prefetch(block(h, load(row, at.FIRST_AT) >> PLACE_BITS))
    prefetch(block(h, load(row, at.END_AT) >> PLACE_BITS))


@jit
def call_sketches(h: int, row: int) -> None:
    """Call for the sketches of the last pane of the slot at ``row``."""
    end = load(row, at.END_AT)
    if end != 0:
        pane = pane_at(h, end - 1)
        for p in range(get(h, at.PARTS)):
            if get(h, at.PART_KIND, p) in SKETCHED:
                prefetch(block(h, load(part_at(h, pane, p), at.SKETCH)))
