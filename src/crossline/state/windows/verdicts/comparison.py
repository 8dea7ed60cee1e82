"""A record's figures against the lines that judge it: which of them emit, and what their hits rest on."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import before, clock, enters, sat_at
from crossline.state.memory.fields import get, load, put
from crossline.state.windows.program import COUNT, INTEGERS
from crossline.state.windows.verdicts.record_emission import emits, meets_real, meets_whole, note_hit, note_window
from crossline.state.windows.window_values import settle, settled_spread, sharpened_spread

COUNT_NOW = -1


@jit
def count_up(h: int, name: int) -> Any:
    """The count before it goes up by one."""
    n = get(h, name)
    put(h, name, n + 1)
    return n


@inlined
def counted_in(h: int, c: int, i: int) -> Any:
    """Record ``i`` where it is counted into cursor ``c`` though the window ends before it, else -1."""
    if get(h, at.ADDS, c) == 0:
        return -1
    return i if enters(h, i, get(h, at.WINDOW_FILTER, c)) else -1


@jit
def figure_place(h: int, row: int, number: int) -> Any:
    """Where output figure ``number`` of a row stands (see ``figure_columns``)."""
    return number * get(h, at.FIGURE_ROWS) + row


@jit
def write_figure(h: int, slot: int, c: int, g: int, row: int, extra: int, defined: bool) -> None:
    """Write down the figure of group ``g`` of run ``c``, which stands at FIGURE if it is defined, to be read later.

    One that is not leaves its place as it is: 0.
    """
    if not defined:
        return
    if get(h, at.OFF, 0) != 0.0:
        settled_spread(h, slot, c, g, extra)
    place, kind = figure_place(h, row, get(h, at.AGGREGATE_FIGURE, g)), get(h, at.AGGREGATE_KIND, g)
    put(h, at.FIGURE_DEFINED, place, 1)
    if kind >= INTEGERS:
        put(h, at.FIGURE_F, place, get(h, at.REAL, 0))
        return
    put(h, at.FIGURE_I, place, get(h, at.WHOLE, 0))
    if kind != COUNT and get(h, at.UP_REST, 0) != 0:
        put(h, at.FIGURE_UP, place, get(h, at.UP_REST, 0))
        count_up(h, at.N_WIDE)


@jit
def _doubtful(h: int, x: int, real: float) -> Any:
    """Whether the figure may be off by so much that line ``x`` may see it on the wrong side of a bound."""
    off = get(h, at.OFF, 0)
    low, high = get(h, at.LOW_F, x), get(h, at.HIGH_F, x)
    return off != 0.0 and (abs(real - low) <= off or abs(real - high) <= off)


@inlined
def some_satisfied(h: int, slot: int) -> Any:
    """Whether some line was satisfied at the last record of the key that it judged."""
    lines, some = get(h, at.LINES), 0
    for byte in range(lines >> 3):
        some |= load(sat_at(h, slot, byte), at.SAT)
    if lines & 7:
        some |= load(sat_at(h, slot, lines >> 3), at.SAT) & ((1 << (lines & 7)) - 1)
    return some != 0


@inlined
def _is_quiet(h: int, g: int) -> Any:
    """Whether the figure of group ``g``, also where it may be off, satisfies none of its lines."""
    kind = get(h, at.AGGREGATE_KIND, g)
    if kind < INTEGERS:
        within = get(h, at.QUIET_LOW_I, g) <= get(h, at.WHOLE, 0) <= get(h, at.QUIET_HIGH_I, g)
        return within and (kind == COUNT or get(h, at.UP_REST, 0) == 0)
    real, off = get(h, at.REAL, 0), get(h, at.OFF, 0)
    return get(h, at.QUIET_LOW_F, g) < real - off and real + off < get(h, at.QUIET_HIGH_F, g)


@jit
def _is_quiet_sharpened(h: int, slot: int, c: int, g: int, extra: int) -> Any:
    """The same after a second look at a figure that may be off."""
    if get(h, at.AGGREGATE_KIND, g) < INTEGERS or get(h, at.OFF, 0) == 0.0:
        return False
    sharpened_spread(h, slot, get(h, at.RUN_OF, c), g, extra)
    return _is_quiet(h, g)


@inlined
def compare(
    h: int, slot: int, c: int, g: int, i: int, row: int, extra: int, count: int, defined: bool, satisfied: bool
) -> None:
    """Judge record ``i`` by the lines of group ``g``, whose value stands at FIGURE if it is defined.

    ``count``: entries of its window, or COUNT_NOW where they are those of the cursor as it stands. ``satisfied``:
    whether some line of the key was satisfied before the record.
    """
    if get(h, at.LINE_AT, g) == get(h, at.LINE_AT, g + 1):
        return
    quiet = not defined or _is_quiet(h, g) or _is_quiet_sharpened(h, slot, c, g, extra)
    if satisfied or not quiet:
        _compare_lines(h, slot, c, g, i, row, extra, count, defined)


@jit
def _compare_lines(h: int, slot: int, c: int, g: int, i: int, row: int, extra: int, count: int, defined: bool) -> None:
    """As ``compare``, line by line."""
    kind, run = get(h, at.AGGREGATE_KIND, g), get(h, at.RUN_OF, c)
    is_int = kind < INTEGERS
    whole, real = get(h, at.WHOLE, 0), get(h, at.REAL, 0)
    up = 0 if kind == COUNT else get(h, at.UP_REST, 0)
    for x in range(get(h, at.LINE_AT, g), get(h, at.LINE_AT, g + 1)):
        judges = get(h, at.LINE_CLASS, x)
        if get(h, at.ACTIVE, judges) == 0:
            continue
        if is_int:
            meets = meets_whole(h, x, whole, up)
        else:
            if _doubtful(h, x, real):
                settle(h, slot, run, g, extra)
                real = get(h, at.REAL, 0)
            meets = meets_real(h, x, real)
        line = get(h, at.LINE_PLAN, x)
        if not emits(h, slot, line, judges, i, defined and meets):
            continue
        if get(h, at.OFF, 0) != 0.0 and not is_int:
            settle(h, slot, run, g, extra)
            real = get(h, at.REAL, 0)
        in_window = count if count >= 0 else get(h, at.COUNT_OF, slot, run) + (1 if extra >= 0 else 0)
        n = note_hit(h, line, row, whole if is_int else 0, up, 0.0 if is_int else real, in_window)
        note_records(h, n, 1 if is_int else 0, c, in_window, i)


@jit
def note_records(h: int, n: int, is_int: int, c: int, count: int, i: int) -> None:
    """Note of hit ``n`` at record ``i`` its window, that of cursor ``c`` of ``count`` records, and what it rests on."""
    high = clock(h, i) - get(h, at.DELAY, c)
    start, to = note_window(h, n, is_int, high - get(h, at.WINDOW, c), high, count)
    # The window of then: what is before the record in its key's list and was there when it came. Records of the same
    # clock stand in ingest order, so those that came later are behind it.
    r = i
    while to > start:
        if _in_window(h, c, r, i, high):
            to -= 1
            put(h, at.OUT_EVIDENCE, to, r)
        r = before(h, r)


@jit
def _in_window(h: int, c: int, r: int, i: int, high: int) -> Any:
    """Whether record ``r``, which does not stand behind ``i``, was in the window of ``i`` on the right side."""
    if r > i or not enters(h, r, get(h, at.WINDOW_FILTER, c)):
        return False
    if r == i and get(h, at.DELAY, c) == 0:
        return get(h, at.INCLUDE, c) != 0
    return clock(h, r) <= high - get(h, at.RIGHT_OPEN, c)
