"""The loops over a batch's rows: take records in and write their figures; note the hits; load; sweep."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory.access import inlined, jit, prefetch
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import call_ends, call_sketches, call_slot, record_at, sat_at, value_at
from crossline.state.panes.aggregates.aggregate_functions import write_figures
from crossline.state.panes.comparison import emit_row, hits_fit
from crossline.state.panes.key_table import AHEAD, add_slot, find_keys, free_slot, key_units, slot_of, slot_row
from crossline.state.panes.pane_lifecycle import AT_A_STEP, came, drop_old, put_record, settle, step_room
from crossline.state.panes.recent_ids import call_id, has_id, know_id, of_slot
from crossline.state.panes.rolling_window import move

NEVER = 2**62


@jit
def _known_slot(h: int, row: int) -> Any:
    """The slot of a row's key, or -1 where it is not known yet."""
    return get(h, at.KEY_SLOT, get(h, at.KEY_INDEX, row))


@inlined
def _look_ahead(h: int, row: int, rows: int) -> None:
    """Call for what the rows soon to come will touch: slots and ids first, then what slots lead to."""
    if row + AHEAD < rows:
        slot = _known_slot(h, row + AHEAD)
        if slot >= 0:
            call_slot(h, slot)
            call_id(h, of_slot(np.uint64(get(h, at.ID_HASH, row + AHEAD)), slot))
    if row + AHEAD // 2 < rows:
        slot = _known_slot(h, row + AHEAD // 2)
        if slot >= 0:
            keyed = slot_row(h, slot)
            call_ends(h, keyed)
            n = load(keyed, at.RAW_N)
            if n:
                prefetch(record_at(h, keyed, n))
    if get(h, at.SKETCHES) != 0 and row + AHEAD // 4 < rows:
        slot = _known_slot(h, row + AHEAD // 4)
        if slot >= 0:
            call_sketches(h, slot_row(h, slot))


@inlined
def _take_in(h: int, row: int, since_ms: int) -> Any:
    """Take row ``row`` in as a record: its number among those of its key, or -1 where it is none.

    That is where it is in no entry, or a duplicate of one with a clock of ``since_ms`` or later; -2: there is no room.
    """
    key = get(h, at.KEY_INDEX, row)
    slot = slot_of(h, key)
    each, wanted = get(h, at.BITS_EACH), 0
    for k in range(each):
        wanted |= get(h, at.BITS, row * each + k)
    hash_, now = np.uint64(get(h, at.ID_HASH, row)), get(h, at.CLOCK_MS, row)
    put(h, at.ROW_SLOT, row, -1)
    if wanted == 0:
        if slot >= 0 and has_id(h, of_slot(hash_, slot), since_ms):
            put(h, at.DUPLICATE, row, 1)
        return -1
    if slot < 0:
        length = get(h, at.KEY_OFFSETS, key + 1) - get(h, at.KEY_OFFSETS, key)
        if not step_room(h, address(h, at.SLOT_BORN), 2 * key_units(length)):
            return -2
        slot = add_slot(h, key)
    elif not step_room(h, slot_row(h, slot), 0):
        return -2
    if know_id(h, of_slot(hash_, slot), now, since_ms):
        put(h, at.DUPLICATE, row, 1)
        return -1
    keyed = slot_row(h, slot)
    drop_old(h, keyed)
    settle(h, keyed, AT_A_STEP)
    i = put_record(h, keyed, now)
    record, columns = record_at(h, keyed, i), get(h, at.COLUMNS)
    for column in range(columns):
        store(value_at(record, column), at.WHOLE_VALUE, get(h, at.VALUES, row * columns + column))
    for k in range(get(h, at.BITS_WORDS)):
        store(value_at(record, columns + k), at.WHOLE_VALUE, get(h, at.BITS, row * each + k))
    came(h, keyed, i)
    put(h, at.ROW_SLOT, row, slot)
    n = get(h, at.N_RETAINED)
    put(h, at.RETAINED, n, row)
    put(h, at.ROW_KEPT, row, n)
    put(h, at.N_RETAINED, n + 1)
    return i


@jit
def judge_rows(h: int, start: int) -> Any:
    """Take in the rows from ``start`` to PIECE_END, and write the figures of those that are judged.

    With AT_ONCE, judge them too. The row to go on from: an earlier one where memory or room for hits is wanted.
    """
    first, end, rows, classes = get(h, at.PIECE_FROM), get(h, at.PIECE_END), get(h, at.ROWS), get(h, at.CLASSES)
    at_once = get(h, at.AT_ONCE)
    if start == 0:
        find_keys(h)
    for row in range(start, end):
        _look_ahead(h, row, rows)
        if at_once and not hits_fit(h):
            return row
        i = _take_in(h, row, get(h, at.INGEST_MS, row) - get(h, at.SINCE))
        if i == -2:
            return row
        if i < 0:
            continue
        judged = 0
        for k in range(classes):
            judged |= get(h, at.ACTIVE, row * classes + k)
        if judged:
            slot, figure_row = get(h, at.ROW_SLOT, row), 0 if at_once else row - first
            keyed = slot_row(h, slot)
            for c in range(get(h, at.N_WINDOWS)):
                move(h, keyed, c, i)
                write_figures(h, keyed, c, i, figure_row)
            if at_once:
                emit_row(h, slot, row, figure_row)
    return end


@jit
def load_rows(h: int, start: int) -> Any:
    """Take rows in, from ``start``, that were judged before: the row to go on from, as of ``judge_rows``.

    LINE_MASK: the lines that ROW_SAT speaks of; CLASS_LINES: those of each class.
    """
    rows, classes, width = get(h, at.ROWS), get(h, at.CLASSES), get(h, at.LINE_BYTES)
    if start == 0:
        find_keys(h)
    for row in range(start, rows):
        _look_ahead(h, row, rows)
        i = _take_in(h, row, NEVER)
        if i == -2:
            return row
        if i < 0:
            continue
        slot = get(h, at.ROW_SLOT, row)
        for k in range(classes):
            if get(h, at.ACTIVE, row * classes + k) == 0:
                continue
            put(h, at.JUDGED, slot, k, get(h, at.CLOCK_MS, row))
            for b in range(width):
                mask = get(h, at.CLASS_LINES, k * width + b) & get(h, at.LINE_MASK, b)
                now = get(h, at.ROW_SAT, row * width + b)
                bits = sat_at(h, slot, b)
                store(bits, at.SAT, (load(bits, at.SAT) & ~mask) | (now & mask))
    return rows


@jit
def sweep(h: int, count: int) -> Any:
    """Settle and drop what may be of ``count`` slots more, and free those with nothing left.

    How many are still to be done, where memory is wanted.
    """
    for left in range(count, 0, -1):
        slots, slot = get(h, at.N_SLOTS), get(h, at.SWEPT)
        if slot >= slots:
            slot = 0
        if slot + AHEAD // 2 < slots:
            call_ends(h, slot_row(h, slot + AHEAD // 2))
        if get(h, at.SKETCHES) != 0 and slot + AHEAD // 4 < slots:
            call_sketches(h, slot_row(h, slot + AHEAD // 4))
        keyed = slot_row(h, slot)
        if load(keyed, at.OWN_KEY) == 0:
            put(h, at.SWEPT, slot + 1)
            continue
        drop_old(h, keyed)
        while load(keyed, at.RAW_N) and load(record_at(h, keyed, 0), at.RECORD_CLOCK) <= get(h, at.FOLD_TO):
            if not step_room(h, keyed, 0):
                return left
            settle(h, keyed, AT_A_STEP)
        drop_old(h, keyed)
        if load(keyed, at.RAW_N) == 0 and load(keyed, at.END_AT) == 0:
            free_slot(h, slot)
        put(h, at.SWEPT, slot + 1)
    return 0
