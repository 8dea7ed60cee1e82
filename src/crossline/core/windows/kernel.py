"""The loop over a batch's rows: take a record in, move the windows it is judged by, compare, note the hits."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossline.core.windows.ahead import find_keys, look_ahead, slot_of
from crossline.core.windows.figures import count_figure, figure, settle
from crossline.core.windows.memory import layout as at
from crossline.core.windows.memory.access import (
    inlined,
    jit,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    store_8,
    store_32,
    store_64,
    store_f64,
)
from crossline.core.windows.memory.header import (
    before,
    bits_at,
    clock,
    emitted_at,
    enters,
    item,
    item_f,
    judged_at,
    row_of,
    sat_at,
    set_clock,
    slot_row,
    tally,
    value_at,
    window_at,
    word,
)
from crossline.core.windows.program import COUNT, DISTINCT, SUM_INT, VALUE_INT
from crossline.core.windows.records.lists import chain_in, link, tie_values
from crossline.core.windows.records.tables import claim, copy_bytes, find_id, put
from crossline.core.windows.rolling import insert, move

EVIDENCE_MAX = 50
NEVER = 2**62


@jit
def _count_up(h: int, name: int) -> Any:
    """The count before it goes up by one."""
    n = tally(h, name)
    store_64(h + 8 * name, n + 1)
    return n


@jit
def _add_key(h: int, key: int) -> Any:
    """A new slot for key number ``key`` of the batch."""
    slot = _count_up(h, at.N_SLOTS)
    row, end = slot_row(h, slot), tally(h, at.N_KEY_BYTES)
    start = item(h, at.KEY_OFFSETS, key)
    length = item(h, at.KEY_OFFSETS, key + 1) - start
    store_64(h + 8 * at.N_KEY_BYTES, end + length)
    copy_bytes(word(h, at.KEY_BYTES) + start, word(h, at.KEYS) + end, length)
    copy_bytes(word(h, at.SLOT_BORN), row, word(h, at.SLOT_BYTES))
    store_32(row + at.KEY_END, end + length)
    put(h, at.KEY_TABLE, np.uint64(item(h, at.KEY_HASH, key)), slot)
    return slot


@inlined
def _take_in(h: int, row: int, since_ms: int) -> Any:
    """Take row ``row`` in as a record; its number, or -1 where it is in no entry or a duplicate.

    It is a duplicate of a record of its key and id with a clock of ``since_ms`` or later.
    """
    key = load_i32(word(h, at.KEY_INDEX) + 4 * row)
    slot = slot_of(h, key)
    start, hash_ = item(h, at.ID_OFFSETS, row), np.uint64(item(h, at.ID_HASH, row))
    length, source = item(h, at.ID_OFFSETS, row + 1) - start, word(h, at.ID_BYTES) + start
    place = find_id(h, slot, hash_, source, length, since_ms)
    if place < 0:
        store_8(word(h, at.DUPLICATE) + row, 1)
        return -1
    width = word(h, at.ENTRY_BYTES)
    bits = word(h, at.ENTRIES) + width * row
    wanted = 0
    for b in range(width):
        wanted |= load_u8(bits + b)
    if wanted == 0:
        return -1
    if slot < 0:
        slot = _add_key(h, key)
        store_32(word(h, at.KEY_SLOT) + 4 * key, slot)
    i = _count_up(h, at.N_RECORDS)
    record, end = row_of(h, i), tally(h, at.N_ID_BYTES)
    store_64(h + 8 * at.N_ID_BYTES, end + length)
    copy_bytes(source, word(h, at.IDS) + end, length)
    store_32(record + at.ID_END, end + length)
    set_clock(h, i, item(h, at.CLOCK_MS, row))
    store_32(record + at.SLOT, slot)
    columns = word(h, at.COLUMNS)
    for col in range(columns):
        store_64(value_at(h, i, col), item(h, at.VALUES, row * columns + col))
    for b in range(word(h, at.BITS_BYTES)):
        store_8(bits_at(h, i, b), load_u8(bits + b))
    claim(word(h, at.ID_TABLE), place, hash_, i)
    store_32(word(h, at.RETAINED) + 4 * _count_up(h, at.N_RETAINED), row)
    return i


@inlined
def _place(h: int, slot: int, i: int) -> Any:
    """Put record ``i`` into lists, chains and windows. Whether it is the last of its key's list."""
    newest = link(h, slot, i)
    chain_in(h, slot, i, newest)
    tie_values(h, slot, i)
    if not newest:
        insert(h, slot, i)
    return newest


@inlined
def _judging(h: int, i: int, row: int) -> Any:
    """Mark the classes of lines that judge record ``i``; whether any does."""
    ingest, lateness, some = item(h, at.INGEST_MS, row), item(h, at.LATENESS_MS, row), 0
    for k in range(word(h, at.CLASSES)):
        judges = 0
        for span in range(item(h, at.SPAN_AT, k), item(h, at.SPAN_AT, k + 1)):
            if item(h, at.SPAN_FROM, span) <= ingest < item(h, at.SPAN_UNTIL, span):
                judges = 1
        if judges and not (lateness <= item(h, at.CLASS_LATE, k) and enters(h, i, item(h, at.CLASS_ENTRY, k))):
            judges = 0
        store_8(word(h, at.ACTIVE) + k, judges)
        some |= judges
    return some != 0


@jit
def judge_rows(h: int, start: int) -> Any:
    """Judge rows from ``start``.

    The row to go on from: that of the batch's end, or earlier where another row's hits may not fit.
    """
    lines, rows = word(h, at.LINES), word(h, at.ROWS)
    if start == 0:
        find_keys(h)
    for row in range(start, rows):
        look_ahead(h, row, rows)
        if tally(h, at.N_HITS) + lines > word(h, at.OUT_ROOM):
            return row
        if tally(h, at.N_EVIDENCE) + lines * EVIDENCE_MAX > word(h, at.EVIDENCE_ROOM):
            return row
        i = _take_in(h, row, item(h, at.INGEST_MS, row) - word(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        newest = _place(h, slot, i)
        if not _judging(h, i, row):
            continue
        for c in range(word(h, at.CURSORS)):
            judged = 0
            for k in range(item(h, at.CLASS_AT, c), item(h, at.CLASS_AT, c + 1)):
                judged |= load_u8(word(h, at.ACTIVE) + item(h, at.CLASS_OF, k))
            if judged == 0:
                continue
            move(h, slot, c, i, newest)
            extra = i if item(h, at.RIGHT_OPEN, c) and item(h, at.INCLUDE, c) else -1
            for g in range(item(h, at.GROUP_AT, c), item(h, at.GROUP_AT, c + 1)):
                if item(h, at.GROUP_KIND, g) == COUNT:
                    defined = count_figure(h, slot, c, extra)
                else:
                    defined = figure(h, slot, c, g, extra)
                _compare(h, slot, c, g, i, row, extra, defined)
        _remember(h, slot, i)
    return rows


@inlined
def _remember(h: int, slot: int, i: int) -> None:
    """Record ``i`` is the last judged by the classes that judged it."""
    for k in range(word(h, at.CLASSES)):
        if load_u8(word(h, at.ACTIVE) + k):
            store_32(judged_at(h, slot, k), i)


@jit
def _doubtful(h: int, x: int, real: float) -> Any:
    """Whether the figure may be off by so much that line ``x`` may see it on the wrong side of a bound."""
    off = load_f64(word(h, at.FIGURE) + 16)
    low, high = item_f(h, at.LOW_F, x), item_f(h, at.HIGH_F, x)
    return off != 0.0 and (abs(real - low) <= off or abs(real - high) <= off)


@jit
def _within(h: int, x: int, whole: int, up: int) -> Any:
    """Whether whole + up * 2^64 is within the bounds of line ``x``."""
    low, high = item(h, at.LOW_UP, x), item(h, at.HIGH_UP, x)
    above = up > low or (up == low and whole >= item(h, at.LOW_REST, x))
    return above and (up < high or (up == high and whole <= item(h, at.HIGH_REST, x)))


@jit
def _compare(h: int, slot: int, c: int, g: int, i: int, row: int, extra: int, defined: bool) -> None:
    """Judge record ``i`` by the lines of group ``g``, whose value stands at FIGURE if it is defined."""
    kind = item(h, at.GROUP_KIND, g)
    is_int = kind in (COUNT, SUM_INT, VALUE_INT, DISTINCT)
    whole, real = load_i64(word(h, at.FIGURE)), load_f64(word(h, at.FIGURE) + 8)
    up = load_i64(word(h, at.FIGURE) + 24) if kind == SUM_INT else 0
    for x in range(item(h, at.LINE_AT, g), item(h, at.LINE_AT, g + 1)):
        judges = item(h, at.LINE_CLASS, x)
        if load_u8(word(h, at.ACTIVE) + judges) == 0:
            continue
        if is_int:
            holds = item(h, at.LOW_I, x) <= whole <= item(h, at.HIGH_I, x) if up == 0 else _within(h, x, whole, up)
        else:
            if _doubtful(h, x, real):
                settle(h, slot, c, g, extra)
                real = load_f64(word(h, at.FIGURE) + 8)
            holds = item_f(h, at.LOW_F, x) <= real <= item_f(h, at.HIGH_F, x)
        holds = defined and holds != (item(h, at.NEGATED, x) != 0)
        line = item(h, at.LINE_PLAN, x)
        mask, bits = 1 << (line & 7), sat_at(h, slot, line >> 3)
        held = load_u8(bits)
        if not holds:
            if held & mask:
                store_8(bits, held ^ mask)
            continue
        store_8(bits, held | mask)
        noted = word(h, at.ROW_SAT) + (tally(h, at.N_RETAINED) - 1) * word(h, at.LINE_BYTES) + (line >> 3)
        store_8(noted, load_u8(noted) | mask)
        if held & mask and item(h, at.EVERY, x) == 0:
            last = load_i32(judged_at(h, slot, judges))
            edge = clock(h, i) - item(h, at.WINDOW, c) - item(h, at.LEFT_CLOSED, c)
            if last >= 0 and clock(h, last) > edge:
                continue
        if _cooling(h, slot, x, i):
            continue
        if load_f64(word(h, at.FIGURE) + 16) != 0.0 and not is_int:
            settle(h, slot, c, g, extra)
            real = load_f64(word(h, at.FIGURE) + 8)
        n = tally(h, at.N_HITS)
        store_8(word(h, at.OUT_IS_INT) + n, 1 if is_int else 0)
        store_64(word(h, at.OUT_VALUE_I) + 8 * n, whole if is_int else 0)
        store_64(word(h, at.OUT_VALUE_UP) + 8 * n, up)
        store_f64(word(h, at.OUT_VALUE_F) + 8 * n, 0.0 if is_int else real)
        _note(h, slot, c, i, line, row)


@jit
def _cooling(h: int, slot: int, x: int, i: int) -> Any:
    """Whether line ``x`` may not emit at record ``i`` yet; if it may, the emission is remembered."""
    column = item(h, at.COOLDOWN_COL, x)
    if column < 0:
        return False
    last_at = emitted_at(h, slot, column)
    last = load_i32(last_at)
    if last >= 0 and clock(h, i) < clock(h, last) + item(h, at.COOLDOWN, x):
        return True
    store_32(last_at, i)
    noted = word(h, at.OUT_EMITTED) + 8 * _count_up(h, at.N_EMITTED)
    store_32(noted, item(h, at.LINE_PLAN, x))
    store_32(noted + 4, tally(h, at.N_RETAINED) - 1)
    return False


@jit
def _note(h: int, slot: int, c: int, i: int, line: int, row: int) -> None:
    """Write a hit down, with its window and the records it rests on."""
    n, start, now = _count_up(h, at.N_HITS), tally(h, at.N_EVIDENCE), clock(h, i)
    extra = item(h, at.RIGHT_OPEN, c) != 0 and item(h, at.INCLUDE, c) != 0
    count = load_i32(window_at(h, slot, c) + at.COUNT_OF) + (1 if extra else 0)
    to = start + min(count, EVIDENCE_MAX)
    store_32(word(h, at.OUT_LINE) + 4 * n, line)
    store_32(word(h, at.OUT_ROW) + 4 * n, row)
    store_64(word(h, at.OUT_COUNT) + 8 * n, count)
    store_64(word(h, at.OUT_START) + 8 * n, now - item(h, at.WINDOW, c))
    store_64(word(h, at.OUT_END) + 8 * n, now)
    store_64(word(h, at.OUT_EVIDENCE_END) + 8 * n, to)
    store_64(h + 8 * at.N_EVIDENCE, to)
    evidence = word(h, at.OUT_EVIDENCE)
    if extra:
        to -= 1
        store_32(evidence + 4 * to, i)
    r = load_i32(window_at(h, slot, c) + at.LAST_OF)
    while to > start:
        if enters(h, r, item(h, at.ENTRY, c)):
            to -= 1
            store_32(evidence + 4 * to, r)
        r = before(h, r)


@jit
def load_rows(h: int) -> None:
    """Take rows in that were judged before.

    LINE_MASK: the lines that ROW_SAT speaks of; CLASS_LINES: those of each class.
    """
    width = word(h, at.LINE_BYTES)
    find_keys(h)
    for row in range(word(h, at.ROWS)):
        look_ahead(h, row, word(h, at.ROWS))
        i = _take_in(h, row, NEVER)
        if i < 0:
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        _place(h, slot, i)
        _judging(h, i, row)
        _remember(h, slot, i)
        for k in range(word(h, at.CLASSES)):
            if load_u8(word(h, at.ACTIVE) + k) == 0:
                continue
            for b in range(width):
                mask = load_u8(word(h, at.CLASS_LINES) + k * width + b) & load_u8(word(h, at.LINE_MASK) + b)
                now = load_u8(word(h, at.ROW_SAT) + row * width + b)
                bits = sat_at(h, slot, b)
                store_8(bits, (load_u8(bits) & ~mask) | (now & mask))
