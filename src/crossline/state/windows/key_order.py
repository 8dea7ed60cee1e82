"""Computes the figures of a batch with records far out of order, key by key in the order of their clocks.

A late record moves its key's windows back, and the next record moves them forward again, over all records in between.
In the order of their clocks, thousands of records move the windows over these once. So all rows are stored first. Then
each window advances over its key's new records by their clocks, and the values of records that came after the judged
one are subtracted. This works for counts and sums of integers, which do not depend on the order of additions. Other
windows move as each record comes. Thresholds and formulas are evaluated last, in the order of arrival.
"""

from __future__ import annotations

from typing import Any

from crossline.state.arithmetic.rolling_sums import take_whole
from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import after, before, clock, enters, slot_row, value_i
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.records.lists import follow
from crossline.state.windows.aggregate_functions import figure
from crossline.state.windows.kernel import place, take_in
from crossline.state.windows.prefetch import find_keys, look_ahead
from crossline.state.windows.program import AVG_INT, COUNT
from crossline.state.windows.rolling_window import insert, move
from crossline.state.windows.verdicts.applicable_rules import judged_by, judging, remember
from crossline.state.windows.verdicts.comparison import (
    compare,
    counted_in,
    figure_place,
    some_satisfied,
    write_figure,
)
from crossline.state.windows.verdicts.record_emission import hits_fit, kept
from crossline.state.windows.window_values import count_figure, int_mean, sum_int


@jit
def take_rows(h: int, start: int) -> None:
    """Take in the rows from ``start`` to ROW_END, and write the figures of windows that move as records come."""
    if start == 0:
        find_keys(h)
    for row in range(start, get(h, at.ROW_END)):
        look_ahead(h, row, get(h, at.ROWS))
        i = take_in(h, row, get(h, at.INGEST_MS, row) - get(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = get(h, at.SLOT, i)
        put(h, at.ROW_RECORD, row, i)
        if get(h, at.UNTIED):
            continue  # nothing asks for its place before all are there
        newest = place(h, slot, i)
        judges = judging(h, i, row)
        if judges == 0:
            continue
        for turn in range(get(h, at.N_WINDOWS)):
            c = get(h, at.TURN, turn)
            if get(h, at.SORTABLE, c) or not judged_by(h, c, judges):
                continue
            run = get(h, at.RUN_OF, c)
            move(h, slot, run, i, newest, get(h, at.INCLUDE, c) != 0)
            extra = counted_in(h, c, i)
            count = get(h, at.COUNT_OF, slot, run) + (1 if extra >= 0 else 0)
            put(h, at.ROW_COUNT, row * get(h, at.N_WINDOWS) + c, count)
            for g in range(get(h, at.AGGREGATE_AT, c), get(h, at.AGGREGATE_AT, c + 1)):
                if get(h, at.AGGREGATE_KIND, g) == COUNT:
                    defined = count_figure(h, slot, run, extra)
                else:
                    defined = figure(h, slot, run, g, i, extra)
                write_figure(h, slot, run, g, row, extra, defined)


@jit
def _ordered(h: int, p: int) -> Any:
    """Record ``p`` in ORDER."""
    return get(h, at.ORDER, p)


@jit
def figure_rows(h: int, count: int) -> None:
    """Tell the figures of the other windows, of the ``count`` records in ORDER."""
    start = 0
    while start < count:
        slot = get(h, at.SLOT, _ordered(h, start))
        end = start
        newest = -1
        while end < count and get(h, at.SLOT, _ordered(h, end)) == slot:
            newest = max(newest, _ordered(h, end))
            put(h, at.NEWEST_OF, end, newest)
            end += 1
        if get(h, at.UNTIED):
            _link_all(h, slot, start, end)
        _figures_of(h, slot, start, end)
        start = end


@jit
def _link_all(h: int, slot: int, start: int, end: int) -> None:
    """Put the records from ``start`` to ``end`` in ORDER, all of one key, into its list and windows, in one go."""
    keyed, walked = slot_row(h, slot), 0
    prev, first = load(keyed, at.TAIL), clock(h, _ordered(h, start))
    if prev < 0:
        put(h, at.N_VACANT, get(h, at.N_VACANT) - 1)
    while prev >= 0 and clock(h, prev) > first:
        prev = before(h, prev)
        walked += 1
    # As if each had been put in as it came: on average half as far back as the first by its clock.
    put(h, at.N_WALKED, get(h, at.N_WALKED) + (walked * (end - start) >> 1))
    nxt = after(h, prev) if prev >= 0 else load(keyed, at.HEAD)
    for p in range(start, end):
        i = _ordered(h, p)
        while nxt >= 0 and clock(h, nxt) <= clock(h, i):
            prev, nxt = nxt, after(h, nxt)
        put(h, at.BEFORE, i, prev)
        put(h, at.AFTER, i, nxt)
        follow(h, keyed, prev, i)
        if nxt < 0:
            store(keyed, at.TAIL, i)
        else:
            put(h, at.BEFORE, nxt, i)
            insert(h, slot, i)
        prev = i


@jit
def _figures_of(h: int, slot: int, start: int, end: int) -> None:
    """Of the records of one key, from ``start`` to ``end`` in ORDER."""
    for c in range(get(h, at.N_WINDOWS)):
        put(h, at.PASSED, c, start)
        put(h, at.LEFT_BEHIND, c, start)
    for p in range(start, end):
        i = _ordered(h, p)
        row = get(h, at.RETAINED, kept(h, i))
        judges = judging(h, i, row)
        if judges == 0:
            continue
        for turn in range(get(h, at.N_WINDOWS)):
            c = get(h, at.TURN, turn)
            if get(h, at.SORTABLE, c) and judged_by(h, c, judges):
                move(h, slot, get(h, at.RUN_OF, c), i, False, get(h, at.INCLUDE, c) != 0)
                left, passed = _moved_on(h, c, clock(h, i), end)
                some = passed > left and get(h, at.NEWEST_OF, passed - 1) > i
                _write_without(h, slot, c, i, row, left, passed if some else left)


@inlined
def _moved_on(h: int, c: int, now: int, end: int) -> Any:
    """From where to where the key's records in ORDER may be in the window of cursor ``c`` at ``now``, besides one."""
    high, low = now - get(h, at.ENDS, c), now - get(h, at.BEGINS, c)
    # Of the same clock those that came later stand behind the record, where a window without it ends.
    if get(h, at.INCLUDE, c) == 0 and high == now:
        high -= 1
    passed, left = get(h, at.PASSED, c), get(h, at.LEFT_BEHIND, c)
    while passed < end and clock(h, _ordered(h, passed)) <= high:
        passed += 1
    while left < passed and clock(h, _ordered(h, left)) < low:
        left += 1
    put(h, at.PASSED, c, passed)
    put(h, at.LEFT_BEHIND, c, left)
    return left, passed


@jit
def _write_without(h: int, slot: int, c: int, i: int, row: int, start: int, end: int) -> None:
    """Tell the figures of cursor ``c`` without records of ORDER, from ``start`` to ``end``, that came after ``i``."""
    entry, extra, later = get(h, at.WINDOW_FILTER, c), counted_in(h, c, i), 0
    for p in range(start, end):
        if _ordered(h, p) > i and enters(h, _ordered(h, p), entry):
            later += 1
    run = get(h, at.RUN_OF, c)
    count = get(h, at.COUNT_OF, slot, run) + (1 if extra >= 0 else 0) - later
    put(h, at.ROW_COUNT, row * get(h, at.N_WINDOWS) + c, count)
    room = address(h, at.SCRATCH)
    for g in range(get(h, at.AGGREGATE_AT, c), get(h, at.AGGREGATE_AT, c + 1)):
        kind = get(h, at.AGGREGATE_KIND, g)
        put(h, at.OFF, 0.0)
        if kind == COUNT:
            put(h, at.WHOLE, count)
            write_figure(h, slot, run, g, row, extra, True)
            continue
        sum_int(h, slot, get(h, at.AGGREGATE_ACC, g), extra)
        if later:
            store(room, at.SUM_LOW, get(h, at.WHOLE))
            store(room, at.SUM_UP, get(h, at.UP_REST))
            for p in range(start, end):
                if _ordered(h, p) > i and enters(h, _ordered(h, p), entry):
                    take_whole(room, value_i(h, _ordered(h, p), get(h, at.AGGREGATE_COL, g)))
            put(h, at.WHOLE, load(room, at.SUM_LOW))
            put(h, at.UP_REST, load(room, at.SUM_UP))
        if kind == AVG_INT and count > 0:
            put(h, at.REAL, int_mean(h, get(h, at.WHOLE), get(h, at.UP_REST), count))
        write_figure(h, slot, run, g, row, extra, kind != AVG_INT or count > 0)


@jit
def compare_rows(h: int, start: int) -> Any:
    """Judge rows from ``start`` by their output figures.

    The row to go on from, as of ``judge_rows``.
    """
    lines, rows = get(h, at.LINES), get(h, at.ROW_END)
    put(h, at.OFF, 0.0)
    for row in range(start, rows):
        if not hits_fit(h, lines):
            return row
        i = get(h, at.ROW_RECORD, row)
        if i < 0:
            continue
        judges = judging(h, i, row)
        if judges == 0:
            continue
        slot = get(h, at.SLOT, i)
        satisfied = some_satisfied(h, slot)
        for turn in range(get(h, at.N_WINDOWS)):
            c = get(h, at.TURN, turn)
            if not judged_by(h, c, judges):
                continue
            count = get(h, at.ROW_COUNT, row * get(h, at.N_WINDOWS) + c)
            for g in range(get(h, at.AGGREGATE_AT, c), get(h, at.AGGREGATE_AT, c + 1)):
                stands = figure_place(h, row, get(h, at.AGGREGATE_FIGURE, g))
                put(h, at.WHOLE, get(h, at.FIGURE_I, stands))
                put(h, at.REAL, get(h, at.FIGURE_F, stands))
                put(h, at.UP_REST, get(h, at.FIGURE_UP, stands))
                defined = get(h, at.FIGURE_DEFINED, stands) != 0
                compare(h, slot, c, g, i, row, -1, count, defined, satisfied)
        remember(h, slot, i, 0, get(h, at.LINE_CLASSES))
    return rows
