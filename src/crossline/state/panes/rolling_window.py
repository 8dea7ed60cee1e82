"""Moves windows to a record, and updates them as records and panes come and go.

A window is a range of panes and a range of records. All panes precede all records, except those of one pane that is
partly settled. So no window ends inside of a pane.
"""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import get, load, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import next_place, number_at, place_before, record_at, window_at
from crossline.state.panes.aggregates.running import add_pane, add_record, clear, take_pane, take_record


@jit
def renew(h: int, row: int, c: int) -> None:
    """Make cursor ``c`` of the slot at ``row`` one of an empty window before all records and after all panes."""
    cursor = window_at(row, c)
    clear(h, row, c)
    store(cursor, at.P_FIRST, load(row, at.END_AT))
    store(cursor, at.P_END, load(row, at.END_AT))
    store(cursor, at.R_FIRST, 0)
    store(cursor, at.R_END, 0)


@jit
def edge(h: int, high: int, back_ms: int, exact: int) -> Any:
    """The first clock of a window that ends at ``high`` and is ``back_ms`` long; see EXACT."""
    if exact < 0:
        resolution = get(h, at.RESOLUTION)
        return (high - back_ms) // resolution * resolution
    return high - back_ms + exact


@inlined
def move(h: int, row: int, c: int, i: int) -> None:
    """Move cursor ``c`` of the slot at ``row`` to the window of its record number ``i``.

    Without that record, where it is not included or the near end is open.
    """
    cursor = window_at(row, c)
    if load(cursor, at.R_END) < 0:
        renew(h, row, c)
    now = load(record_at(h, row, i), at.RECORD_CLOCK)
    high, exact = now - get(h, at.DELAY, c), get(h, at.EXACT, c)
    first, low = 0, high - get(h, at.WINDOW, c) + exact
    if exact < 0:  # as ``edge`` has it; the number of the pane is wanted too, and dividing takes long
        first = (low + 1) // get(h, at.RESOLUTION)
        low = first * get(h, at.RESOLUTION)
    store(cursor, at.LOW, low)
    ends = i + 1 if get(h, at.INCLUDE, c) else i
    if get(h, at.DELAY, c) != 0:
        if exact < 0:
            end = high // get(h, at.RESOLUTION)
            _move_panes(h, row, c, first, end)
            ends = _first_from(h, row, end * get(h, at.RESOLUTION), load(cursor, at.R_END))
        else:
            ends = _first_from(h, row, high + 1 - get(h, at.RIGHT_OPEN, c), load(cursor, at.R_END))
    else:
        if get(h, at.RIGHT_OPEN, c):
            ends = i
            while ends > 0 and load(record_at(h, row, ends - 1), at.RECORD_CLOCK) == now:
                ends -= 1
        if exact < 0:
            _move_first(h, row, c, first)
    _move_records(h, row, c, low, ends)


@jit
def _first_from(h: int, row: int, clock_ms: int, k: int) -> Any:
    """The number of the first record with a clock from ``clock_ms`` on, looked for from number ``k``."""
    n = load(row, at.RAW_N)
    while k < n and load(record_at(h, row, k), at.RECORD_CLOCK) < clock_ms:
        k += 1
    while k > 0 and load(record_at(h, row, k - 1), at.RECORD_CLOCK) >= clock_ms:
        k -= 1
    return k


@jit
def _move_records(h: int, row: int, c: int, low: int, ends: int) -> None:
    cursor = window_at(row, c)
    first, end = load(cursor, at.R_FIRST), load(cursor, at.R_END)
    while end > ends:
        end -= 1
        if end >= first:
            take_record(h, row, c, record_at(h, row, end))
        else:
            first = end
    while first < end and load(record_at(h, row, first), at.RECORD_CLOCK) < low:
        take_record(h, row, c, record_at(h, row, first))
        first += 1
    while end < ends:
        record = record_at(h, row, end)
        end += 1
        if load(record, at.RECORD_CLOCK) >= low:
            add_record(h, row, c, record)
        else:
            first = end
    while first > 0 and load(record_at(h, row, first - 1), at.RECORD_CLOCK) >= low:
        first -= 1
        add_record(h, row, c, record_at(h, row, first))
    store(cursor, at.R_FIRST, first)
    store(cursor, at.R_END, end)


@jit
def _move_first(h: int, row: int, c: int, low: int) -> None:
    """Move the far edge among panes to number ``low``; the near one is the end of all."""
    cursor, end, start = window_at(row, c), load(row, at.END_AT), load(row, at.FIRST_AT)
    first = load(cursor, at.P_FIRST)
    while first != end and number_at(h, row, first) < low:
        take_pane(h, row, c, first)
        first = next_place(h, first)
    while first != start:
        before = place_before(h, first)
        if number_at(h, row, before) < low:
            break
        first = before
        add_pane(h, row, c, first)
    store(cursor, at.P_FIRST, first)


@jit
def _move_panes(h: int, row: int, c: int, low: int, high: int) -> None:
    """Move both edges among panes: from number ``low`` to before number ``high``."""
    cursor, last, start = window_at(row, c), load(row, at.END_AT), load(row, at.FIRST_AT)
    first, end = load(cursor, at.P_FIRST), load(cursor, at.P_END)
    while end != start and number_at(h, row, place_before(h, end)) >= high:
        if first == end:
            first = place_before(h, end)
        else:
            take_pane(h, row, c, place_before(h, end))
        end = place_before(h, end)
    while first != end and number_at(h, row, first) < low:
        take_pane(h, row, c, first)
        first = next_place(h, first)
    while end != last and number_at(h, row, end) < high:
        if number_at(h, row, end) >= low:
            add_pane(h, row, c, end)
        else:
            first = next_place(h, end)
        end = next_place(h, end)
    while first != start and number_at(h, row, place_before(h, first)) >= low:
        first = place_before(h, first)
        add_pane(h, row, c, first)
    store(cursor, at.P_FIRST, first)
    store(cursor, at.P_END, end)


@jit
def record_came(h: int, row: int, i: int) -> None:
    """Record ``i`` was put between others: windows on both sides of it take it in, those behind it move up."""
    record = record_at(h, row, i)
    for c in range(get(h, at.N_WINDOWS)):
        cursor = window_at(row, c)
        first, end = load(cursor, at.R_FIRST), load(cursor, at.R_END)
        if end <= i:
            continue
        store(cursor, at.R_END, end + 1)
        if i < first or load(record, at.RECORD_CLOCK) < load(cursor, at.LOW):
            store(cursor, at.R_FIRST, first + 1)
        else:
            add_record(h, row, c, record)


@jit
def record_goes(h: int, row: int, before: int, place: int, kept: bool) -> None:
    """The first record goes into a pane, or nowhere (not ``kept``). ``place``: of the pane made for it, or -1.

    ``before``: where panes ended then. Called when it is in its pane, before it is left behind. What a window holds
    does not change by it, but that a window that ended before the record, and has no delay, has it from now on; and
    that one with an exact far edge, which has no panes, holds it no longer.
    """
    record = record_at(h, row, 0)
    for c in range(get(h, at.N_WINDOWS)):
        cursor = window_at(row, c)
        first, end = load(cursor, at.R_FIRST), load(cursor, at.R_END)
        if end < 0:
            continue
        inside, ahead = first == 0 and end > 0, end == 0
        panes = kept and get(h, at.EXACT, c) < 0
        if ahead and panes and get(h, at.DELAY, c) == 0:
            ahead = False
            if load(record, at.RECORD_CLOCK) >= load(cursor, at.LOW):
                add_record(h, row, c, record)
                inside = True
        elif inside and not panes:
            take_record(h, row, c, record)
            inside = False
        if end > 0:
            store(cursor, at.R_END, end - 1)
            store(cursor, at.R_FIRST, max(first - 1, 0))
        if place >= 0:
            _pane_came(row, cursor, before, place, inside, ahead and panes)


@jit
def _pane_came(row: int, cursor: int, before: int, place: int, inside: bool, ahead: bool) -> None:
    """A last pane was made, which the window holds (``inside``), or has not come to (``ahead``), or has left behind."""
    first, end, last = load(cursor, at.P_FIRST), load(cursor, at.P_END), load(row, at.END_AT)
    if first == before:
        first = place
    if end == before:
        end = place
    if not ahead:
        end = last
        if not inside:
            first = last
    store(cursor, at.P_FIRST, first)
    store(cursor, at.P_END, end)


@jit
def pane_goes(h: int, row: int, place: int, after: int) -> None:
    """The first pane, at ``place``, is to be dropped; the next one is at ``after``."""
    for c in range(get(h, at.N_WINDOWS)):
        cursor = window_at(row, c)
        if load(cursor, at.R_END) < 0:
            continue
        delayed = get(h, at.DELAY, c) != 0
        if load(cursor, at.P_FIRST) == place:
            if get(h, at.EXACT, c) < 0 and not (delayed and load(cursor, at.P_END) == place):
                take_pane(h, row, c, place)
            store(cursor, at.P_FIRST, after)
        if load(cursor, at.P_END) == place:
            store(cursor, at.P_END, after)


@jit
def panes_gone(h: int, row: int) -> None:
    """No pane is left."""
    for c in range(get(h, at.N_WINDOWS)):
        store(window_at(row, c), at.P_FIRST, 0)
        store(window_at(row, c), at.P_END, 0)
