"""The loop over a batch's rows: take a record in, move the windows it is judged by, compare, note the hits."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import row_of, sat_at, set_clock, slot_row, value_at
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.records.hash_tables import claim, copy_bytes, enter, find_id
from crossline.state.records.lists import chain_in, link, tie_values
from crossline.state.windows.aggregate_functions import figure
from crossline.state.windows.prefetch import find_keys, look_ahead, slot_of
from crossline.state.windows.program import COUNT
from crossline.state.windows.rolling_window import insert, move
from crossline.state.windows.verdicts.applicable_rules import judged_by, judging, remember
from crossline.state.windows.verdicts.comparison import (
    COUNT_NOW,
    compare,
    count_up,
    counted_in,
    some_satisfied,
    write_figure,
)
from crossline.state.windows.verdicts.record_emission import hits_fit
from crossline.state.windows.window_values import count_figure

NEVER = 2**62


@jit
def _add_key(h: int, key: int) -> Any:
    """A new slot for key number ``key`` of the batch."""
    slot = count_up(h, at.N_SLOTS)
    put(h, at.N_VACANT, get(h, at.N_VACANT) + 1)
    row, end = slot_row(h, slot), get(h, at.N_KEY_BYTES)
    start = get(h, at.KEY_OFFSETS, key)
    length = get(h, at.KEY_OFFSETS, key + 1) - start
    put(h, at.N_KEY_BYTES, end + length)
    copy_bytes(address(h, at.KEY_BYTES) + start, address(h, at.KEYS) + end, length)
    copy_bytes(address(h, at.SLOT_BORN), row, get(h, at.SLOT_BYTES))
    store(row, at.KEY_END, end + length)
    enter(h, at.KEY_TABLE, np.uint64(get(h, at.KEY_HASH, key)), slot)
    return slot


@inlined
def take_in(h: int, row: int, since_ms: int) -> Any:
    """Take row ``row`` in as a record; its number, or -1 where it is in no entry or a duplicate.

    It is a duplicate of a record of its key and id with a clock of ``since_ms`` or later.
    """
    key = get(h, at.KEY_INDEX, row)
    slot = slot_of(h, key)
    start, hash_ = get(h, at.ID_OFFSETS, row), np.uint64(get(h, at.ID_HASH, row))
    length, source = get(h, at.ID_OFFSETS, row + 1) - start, address(h, at.ID_BYTES) + start
    place = find_id(h, slot, hash_, source, length, since_ms)
    if place < 0:
        put(h, at.DUPLICATE, row, 1)
        return -1
    width = get(h, at.FILTER_BYTES)
    bits = address(h, at.ROW_FILTERS) + width * row
    wanted = 0
    for b in range(width):
        wanted |= load(bits + b, at.BITS)
    if wanted == 0:
        return -1
    if slot < 0:
        slot = _add_key(h, key)
        put(h, at.KEY_SLOT, key, slot)
    i = count_up(h, at.N_RECORDS)
    record, end = row_of(h, i), get(h, at.N_ID_BYTES)
    put(h, at.N_ID_BYTES, end + length)
    copy_bytes(source, address(h, at.IDS) + end, length)
    store(record, at.ID_END, end + length)
    set_clock(h, i, get(h, at.CLOCK_MS, row))
    store(record, at.SLOT, slot)
    columns = get(h, at.COLUMNS)
    for col in range(columns):
        store(value_at(h, i, col), at.WHOLE_VALUE, get(h, at.VALUES, row * columns + col))
    for b in range(get(h, at.BITS_BYTES)):
        put(h, at.BITS, i, b, load(bits + b, at.BITS))
    claim(h, at.ID_TABLE, place, hash_, i)
    put(h, at.RETAINED, count_up(h, at.N_RETAINED), row)
    return i


@inlined
def place(h: int, slot: int, i: int) -> Any:
    """Put record ``i`` into lists, chains and windows. Whether it is the last of its key's list."""
    newest = link(h, slot, i)
    chain_in(h, slot, i, newest)
    tie_values(h, slot, i)
    if not newest:
        insert(h, slot, i)
    return newest


@jit
def judge_rows(h: int, start: int) -> Any:
    """Judge rows from ``start``.

    The row to go on from: ROW_END, or an earlier one where another row's hits may not fit.
    """
    lines, rows, end, row_figures = get(h, at.LINES), get(h, at.ROWS), get(h, at.ROW_END), get(h, at.ROW_FIGURES)
    if start == 0:
        find_keys(h)
    for row in range(start, end):
        look_ahead(h, row, rows)
        if not hits_fit(h, lines):
            return row
        i = take_in(h, row, get(h, at.INGEST_MS, row) - get(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = get(h, at.SLOT, i)
        newest = place(h, slot, i)
        if row_figures:
            put(h, at.ROW_RECORD, row, i)
        judges = judging(h, i, row)
        if judges == 0:
            continue
        satisfied = some_satisfied(h, slot)
        for turn in range(get(h, at.N_WINDOWS)):
            c = get(h, at.TURN, turn)
            if not judged_by(h, c, judges):
                continue
            run = get(h, at.RUN_OF, c)
            move(h, slot, run, i, newest, get(h, at.INCLUDE, c) != 0)
            extra = counted_in(h, c, i)
            for g in range(get(h, at.AGGREGATE_AT, c), get(h, at.AGGREGATE_AT, c + 1)):
                if get(h, at.AGGREGATE_KIND, g) == COUNT:
                    defined = count_figure(h, slot, run, extra)
                else:
                    defined = figure(h, slot, run, g, i, extra)
                compare(h, slot, c, g, i, row, extra, COUNT_NOW, defined, satisfied)
                if row_figures and get(h, at.AGGREGATE_FIGURE, g) < row_figures:
                    write_figure(h, slot, run, g, row, extra, defined)
        remember(h, slot, i, 0, get(h, at.LINE_CLASSES))
    return end


@jit
def advance(h: int, slot: int, i: int) -> None:
    """Move all windows of a key to record ``i``, the last of its list, as judging it does."""
    for turn in range(get(h, at.N_WINDOWS)):
        c = get(h, at.TURN, turn)
        move(h, slot, get(h, at.RUN_OF, c), i, True, get(h, at.INCLUDE, c) != 0)


@jit
def load_rows(h: int) -> None:
    """Take rows in that were judged before.

    Windows move along: a key's next record would walk over all of its records again, each of which waits for memory.

    LINE_MASK: the lines that ROW_SAT speaks of; CLASS_LINES: those of each class.
    """
    width = get(h, at.LINE_BYTES)
    find_keys(h)
    for row in range(get(h, at.ROWS)):
        look_ahead(h, row, get(h, at.ROWS))
        i = take_in(h, row, NEVER)
        if i < 0:
            continue
        slot = get(h, at.SLOT, i)
        if place(h, slot, i):
            advance(h, slot, i)
        judging(h, i, row)
        remember(h, slot, i, 0, get(h, at.CLASSES))
        for k in range(get(h, at.CLASSES)):
            if get(h, at.ACTIVE, k) == 0:
                continue
            for b in range(width):
                mask = get(h, at.CLASS_LINES, k * width + b) & get(h, at.LINE_MASK, b)
                now = get(h, at.ROW_SAT, row * width + b)
                bits = sat_at(h, slot, b)
                store(bits, at.SAT, (load(bits, at.SAT) & ~mask) | (now & mask))
