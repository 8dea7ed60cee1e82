"""Figures of a batch whose records come far out of order: made key by key in the order of their clocks.

A late record moves its key's windows back, and the next one forth again: as many steps at each end as the key has
records in between. Taken in the order of their clocks, the records of some thousand rows move them over that once. So
rows are first taken in, all of them; then each window goes over its key's new records by their clocks; what it then
holds of records that came after the one that is judged is taken off. That is done for counts and sums of integers, to
which it makes no difference in which order they are made. Other windows are moved as each record comes. Lines and
formulas look at the figures at last, in the order in which the records came.
"""

from __future__ import annotations

from typing import Any

from crossline.state.arithmetic.sums import take_whole
from crossline.state.memory import layout as at
from crossline.state.memory.access import (
    inlined,
    jit,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    store_32,
    store_64,
    store_f64,
)
from crossline.state.memory.header import (
    after,
    before,
    clock,
    enters,
    item,
    row_of,
    slot_row,
    tally,
    value_i,
    window_at,
    word,
)
from crossline.state.windows.ahead import find_keys, look_ahead
from crossline.state.windows.figures import count_figure, int_mean, sum_int
from crossline.state.windows.kernel import place, take_in
from crossline.state.windows.program import AVG_INT, COUNT
from crossline.state.windows.readings import figure
from crossline.state.windows.rolling import insert, move
from crossline.state.windows.verdicts.compare import compare, counted_in, tell
from crossline.state.windows.verdicts.emission import hits_fit, kept
from crossline.state.windows.verdicts.judging import judged_by, judging, remember


@jit
def take_rows(h: int, start: int) -> None:
    """Take in the rows from ``start`` to ROW_END, and tell the figures of windows that are moved as records come."""
    if start == 0:
        find_keys(h)
    for row in range(start, word(h, at.ROW_END)):
        look_ahead(h, row, word(h, at.ROWS))
        i = take_in(h, row, item(h, at.INGEST_MS, row) - word(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        store_32(word(h, at.ROW_RECORD) + 4 * row, i)
        if word(h, at.UNTIED):
            continue  # nothing asks for its place before all are there
        newest = place(h, slot, i)
        if not judging(h, i, row):
            continue
        for c in range(word(h, at.CURSORS)):
            if item(h, at.SORTABLE, c) or not judged_by(h, c):
                continue
            move(h, slot, c, i, newest)
            extra = counted_in(h, c, i)
            count = load_i32(window_at(h, slot, c) + at.COUNT_OF) + (1 if extra >= 0 else 0)
            store_32(_count_of(h, row, c), count)
            for g in range(item(h, at.GROUP_AT, c), item(h, at.GROUP_AT, c + 1)):
                if item(h, at.GROUP_KIND, g) == COUNT:
                    defined = count_figure(h, slot, c, extra)
                else:
                    defined = figure(h, slot, c, g, i, extra)
                tell(h, slot, c, g, row, extra, defined)


@jit
def _count_of(h: int, row: int, c: int) -> Any:
    """Where the entries of cursor ``c`` at ``row`` are noted."""
    return word(h, at.ROW_COUNT) + 4 * (row * word(h, at.CURSORS) + c)


@jit
def _ordered(h: int, p: int) -> Any:
    """Record ``p`` in ORDER."""
    return load_i32(word(h, at.ORDER) + 4 * p)


@jit
def figure_rows(h: int, count: int) -> None:
    """Tell the figures of the other windows, of the ``count`` records in ORDER."""
    start = 0
    while start < count:
        slot = load_i32(row_of(h, _ordered(h, start)) + at.SLOT)
        end = start
        newest = -1
        while end < count and load_i32(row_of(h, _ordered(h, end)) + at.SLOT) == slot:
            newest = max(newest, _ordered(h, end))
            store_32(word(h, at.NEWEST_OF) + 4 * end, newest)
            end += 1
        if word(h, at.UNTIED):
            _link_all(h, slot, start, end)
        _figures_of(h, slot, start, end)
        start = end


@jit
def _link_all(h: int, slot: int, start: int, end: int) -> None:
    """Put the records from ``start`` to ``end`` in ORDER, all of one key, into its list and windows, in one go."""
    keyed, walked = slot_row(h, slot), 0
    prev, first = load_i32(keyed + at.TAIL), clock(h, _ordered(h, start))
    while prev >= 0 and clock(h, prev) > first:
        prev = before(h, prev)
        walked += 1
    # As if each had been put in as it came: on average half as far back as the first by its clock.
    store_64(h + 8 * at.N_WALKED, tally(h, at.N_WALKED) + (walked * (end - start) >> 1))
    nxt = after(h, prev) if prev >= 0 else load_i32(keyed + at.HEAD)
    for p in range(start, end):
        i = _ordered(h, p)
        while nxt >= 0 and clock(h, nxt) <= clock(h, i):
            prev, nxt = nxt, after(h, nxt)
        store_32(row_of(h, i) + at.BEFORE, prev)
        store_32(row_of(h, i) + at.AFTER, nxt)
        store_32(keyed + at.HEAD if prev < 0 else row_of(h, prev) + at.AFTER, i)
        store_32(keyed + at.TAIL if nxt < 0 else row_of(h, nxt) + at.BEFORE, i)
        if nxt >= 0:
            insert(h, slot, i)
        prev = i


@jit
def _figures_of(h: int, slot: int, start: int, end: int) -> None:
    """Of the records of one key, from ``start`` to ``end`` in ORDER."""
    for c in range(word(h, at.CURSORS)):
        store_64(word(h, at.PASSED) + 8 * c, start)
        store_64(word(h, at.LEFT_BEHIND) + 8 * c, start)
    for p in range(start, end):
        i = _ordered(h, p)
        row = load_i32(word(h, at.RETAINED) + 4 * kept(h, i))
        if not judging(h, i, row):
            continue
        for c in range(word(h, at.CURSORS)):
            if item(h, at.SORTABLE, c) and judged_by(h, c):
                move(h, slot, c, i, False)
                left, passed = _moved_on(h, c, clock(h, i), end)
                some = passed > left and load_i32(word(h, at.NEWEST_OF) + 4 * (passed - 1)) > i
                _tell_without(h, slot, c, i, row, left, passed if some else left)


@inlined
def _moved_on(h: int, c: int, now: int, end: int) -> Any:
    """From where to where the key's records in ORDER may be in the window of cursor ``c`` at ``now``, besides one."""
    high, low = now - item(h, at.ENDS, c), now - item(h, at.BEGINS, c)
    # Of the same clock those that came later stand behind the record, where a window without it ends.
    if item(h, at.INCLUDE, c) == 0 and high == now:
        high -= 1
    passed_at, left_at = word(h, at.PASSED) + 8 * c, word(h, at.LEFT_BEHIND) + 8 * c
    passed, left = load_i64(passed_at), load_i64(left_at)
    while passed < end and clock(h, _ordered(h, passed)) <= high:
        passed += 1
    while left < passed and clock(h, _ordered(h, left)) < low:
        left += 1
    store_64(passed_at, passed)
    store_64(left_at, left)
    return left, passed


@jit
def _tell_without(h: int, slot: int, c: int, i: int, row: int, start: int, end: int) -> None:
    """Tell the figures of cursor ``c`` without records of ORDER, from ``start`` to ``end``, that came after ``i``."""
    entry, extra, later = item(h, at.ENTRY, c), counted_in(h, c, i), 0
    for p in range(start, end):
        if _ordered(h, p) > i and enters(h, _ordered(h, p), entry):
            later += 1
    count = load_i32(window_at(h, slot, c) + at.COUNT_OF) + (1 if extra >= 0 else 0) - later
    store_32(_count_of(h, row, c), count)
    figure_at, room = word(h, at.FIGURE), word(h, at.SCRATCH)
    for g in range(item(h, at.GROUP_AT, c), item(h, at.GROUP_AT, c + 1)):
        kind = item(h, at.GROUP_KIND, g)
        store_f64(figure_at + 16, 0.0)
        if kind == COUNT:
            store_64(figure_at, count)
            tell(h, slot, c, g, row, extra, True)
            continue
        sum_int(h, slot, item(h, at.GROUP_ACC, g), extra)
        if later:
            store_64(room + at.SUM_LOW, load_i64(figure_at))
            store_64(room + at.SUM_UP, load_i64(figure_at + 24))
            for p in range(start, end):
                if _ordered(h, p) > i and enters(h, _ordered(h, p), entry):
                    take_whole(room, value_i(h, _ordered(h, p), item(h, at.GROUP_COL, g)))
            store_64(figure_at, load_i64(room + at.SUM_LOW))
            store_64(figure_at + 24, load_i64(room + at.SUM_UP))
        if kind == AVG_INT and count > 0:
            store_f64(figure_at + 8, int_mean(h, load_i64(figure_at), load_i64(figure_at + 24), count))
        tell(h, slot, c, g, row, extra, kind != AVG_INT or count > 0)


@jit
def compare_rows(h: int, start: int) -> Any:
    """Judge rows from ``start`` by the figures that were told.

    The row to go on from, as of ``judge_rows``.
    """
    lines, rows, figure_at = word(h, at.LINES), word(h, at.ROW_END), word(h, at.FIGURE)
    store_f64(figure_at + 16, 0.0)
    for row in range(start, rows):
        if not hits_fit(h, lines):
            return row
        i = load_i32(word(h, at.ROW_RECORD) + 4 * row)
        if i < 0 or not judging(h, i, row):
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        for c in range(word(h, at.CURSORS)):
            if not judged_by(h, c):
                continue
            count = load_i32(_count_of(h, row, c))
            for g in range(item(h, at.GROUP_AT, c), item(h, at.GROUP_AT, c + 1)):
                told = row * word(h, at.TOLD) + item(h, at.GROUP_TOLD, g)
                store_64(figure_at, load_i64(word(h, at.TOLD_I) + 8 * told))
                store_f64(figure_at + 8, load_f64(word(h, at.TOLD_F) + 8 * told))
                store_64(figure_at + 24, load_i64(word(h, at.TOLD_UP) + 8 * told))
                compare(h, slot, c, g, i, row, -1, count, load_u8(word(h, at.TOLD_OK) + told) != 0)
        remember(h, slot, i, 0, word(h, at.LINE_CLASSES))
    return rows
