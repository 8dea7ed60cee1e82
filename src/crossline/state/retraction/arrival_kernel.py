"""What each record out of order changes of one line: the figures, verdicts and hits of the rows behind it.

The rows of a key are in order, with the figure that each had when it came. Records come one by one: one in order takes
its place at the end, a *late* one between others. It is added to the figure of each row whose window it is in, which is
one addition; then the line is decided again from its place on. What a late record and those in order behind it change
is a *step*, listed as entries where a hit comes, goes or has another window, and, if wanted, where the line holds or
its alert is another one.

The figures are of integers, and below 2^53, so sums and averages are exact.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from crossline.basics.kernels.kernel import Kernel
from crossline.basics.values import I64, U8
from crossline.state.memory.access import jit
from crossline.state.memory.source_digest import digest

COUNT, SUM, AVG, MIN, MAX, DISTINCT = range(6)
NONE_MS = -(2**62)  # no such record, in ms

# Of each row, in order. CAME: how many came before it. ENTERS: whether it is in windows; JUDGED: whether the line
# judges it. WHOLE, COUNT_IN: its figure (of an average the sum), and how many records are in its window; DEFINED:
# whether there is a figure. HOLDS, HITS: whether the line is satisfied, and emits; TOLD: whether it ever emitted there.
# The rest is of the step: what was before, and whether the row is listed.
ROW_FIELDS = 17
(
    CLOCK,
    CAME,
    ENTERS,
    JUDGED,
    VALUE,
    WHOLE,
    COUNT_IN,
    DEFINED,
    HOLDS,
    HITS,
    TOLD,
    OLD_WHOLE,
    OLD_COUNT,
    NOW_HOLDS,
    NOW_HITS,
    LISTED,
    OLD_HITS,
) = range(ROW_FIELDS)

# Of the line. BEGINS: the ms from the first clock in a window to its record; ENDS: from the last one. JUDGED_MS, HELD,
# EMITTED_MS: of the rows before, the clock of the last one judged, whether it was satisfied, the last emission.
LINE_FIELDS = 12
(
    KIND,
    LOW,
    HIGH,
    NEGATED,
    BEGINS,
    ENDS,
    REARM,
    COOLDOWN,
    JUDGED_MS,
    HELD,
    EMITTED_MS,
    ALL_HELD,
) = range(LINE_FIELDS)

# NEXT: how many have come. TOP: the place of the last of them, in order. STEPS, ENTRIES: how many there are.
PROGRESS_FIELDS = 4
NEXT, TOP, STEPS, ENTRIES = range(PROGRESS_FIELDS)

# Of an entry. FLAGS: whether the line was satisfied, was a hit, is satisfied, is a hit, and had emitted there.
ENTRY_FIELDS = 7
STEP, PLACE, FLAGS, WAS_WHOLE, WAS_COUNT, IS_WHOLE, IS_COUNT = range(ENTRY_FIELDS)
HELD_BIT, HIT_BIT, HOLDS_BIT, HITS_BIT, TOLD_BIT = 1, 2, 4, 8, 16

# Of a step. FIRST: how many rows came before it; END: how many had come with it. START: the first place where anything
# is another. LATE: whether it begins with a late one. ALERT: the place of the last hit before START, -1: none of these
# rows.
STEP_FIELDS = 5
FIRST, END, START, LATE, ALERT = range(STEP_FIELDS)


@jit
def _meets(rows: Any, line: Any, real: Any, i: int) -> int:
    """Whether the figure of row ``i`` satisfies the line."""
    if rows[DEFINED, i] == 0:
        return 0
    if line[KIND] == AVG:
        mean = rows[WHOLE, i] / rows[COUNT_IN, i]
        within = real[0] <= mean <= real[1]
    else:
        within = line[LOW] <= rows[WHOLE, i] <= line[HIGH]
    return 1 if within != (line[NEGATED] != 0) else 0


@jit
def _last_of(rows: Any, seen: Any, late: int) -> Any:
    """The clock of the last record before ``late`` that has its value."""
    value, came = rows[VALUE, late], rows[CAME, late]
    for i in range(late - 1, -1, -1):
        if rows[VALUE, i] == value and rows[ENTERS, i] != 0 and rows[CAME, i] < came:
            return rows[CLOCK, i]
    return seen[value]


@jit
def _add(rows: Any, line: Any, i: int, value: int, is_new: int) -> None:
    """A record of ``value`` comes into the window of row ``i``; ``is_new``: no other one there has this value."""
    kind = line[KIND]
    if kind == COUNT:
        rows[WHOLE, i] += 1
    elif kind <= AVG:
        rows[WHOLE, i] += value
    elif kind == DISTINCT:
        rows[WHOLE, i] += is_new
    elif rows[DEFINED, i] == 0 or (value < rows[WHOLE, i] if kind == MIN else value > rows[WHOLE, i]):
        rows[WHOLE, i] = value
    rows[DEFINED, i] = 1
    rows[COUNT_IN, i] += 1


@jit
def _insert(rows: Any, line: Any, seen: Any, late: int, top: int) -> None:
    """The late record at ``late`` comes into the windows of the rows behind it, up to ``top``, that are there."""
    if rows[ENTERS, late] == 0:
        return
    value, came, clock = rows[VALUE, late], rows[CAME, late], rows[CLOCK, late]
    last = _last_of(rows, seen, late) if line[KIND] == DISTINCT else 0
    for i in range(late + 1, top + 1):
        if rows[CAME, i] >= came:
            continue
        begin_ms = rows[CLOCK, i] - line[BEGINS]
        if clock < begin_ms:
            return
        if rows[ENTERS, i] != 0 and rows[VALUE, i] == value:
            last = rows[CLOCK, i]
        if rows[JUDGED, i] != 0 and clock <= rows[CLOCK, i] - line[ENDS]:
            _add(rows, line, i, value, 1 if last < begin_ms else 0)


@jit
def _before(rows: Any, line: Any, start: int, came: int) -> Any:
    """Of the rows before ``start``: the clock of the last one judged, whether it holds, the place of the last hit."""
    judged_ms, held = line[JUDGED_MS], line[HELD]
    i = start - 1
    while i >= 0 and (rows[JUDGED, i] == 0 or rows[CAME, i] >= came):
        i -= 1
    if i >= 0:
        judged_ms, held = rows[CLOCK, i], rows[HOLDS, i]
    while i >= 0 and (rows[HITS, i] == 0 or rows[CAME, i] >= came):
        i -= 1
    return judged_ms, held, i


@jit
def _decide(rows: Any, line: Any, real: Any, start: int, end: int, first: int, came: int) -> Any:
    """Decide rows from ``start`` to ``end`` anew, of which those that are there were ``first``, and are ``came`` now.

    Whether any is another than before, and the place of the last hit before them.
    """
    judged_ms, held, alert = _before(rows, line, start, came)
    emitted_ms = rows[CLOCK, alert] if alert >= 0 else line[EMITTED_MS]
    some, was_by, by = 0, alert, alert
    for i in range(start, end + 1):
        if rows[JUDGED, i] == 0 or rows[CAME, i] >= came:
            continue
        clock, holds, hits = rows[CLOCK, i], _meets(rows, line, real, i), 0
        if holds != 0 and (held == 0 or judged_ms <= clock - line[REARM]):
            cools = line[COOLDOWN] > 0 and emitted_ms != NONE_MS and clock < emitted_ms + line[COOLDOWN]
            hits = 0 if cools else 1
        judged_ms, held = clock, holds
        was_held, was_hit = (rows[HOLDS, i], rows[HITS, i]) if rows[CAME, i] < first else (0, 0)
        if hits != 0:
            emitted_ms, by = clock, i
        if was_hit != 0:
            was_by = i
        moved = hits != was_hit or (hits != 0 and rows[COUNT_IN, i] != rows[OLD_COUNT, i])
        listed = hits | was_hit
        if line[ALL_HELD] != 0 and (holds != was_held or (holds != 0 and by != was_by)):
            moved, listed = True, 1
        some = 1 if moved else some
        rows[NOW_HOLDS, i], rows[NOW_HITS, i], rows[OLD_HITS, i] = holds, hits, was_hit
        rows[LISTED, i] = listed
    return some, alert


@jit
def _list(rows: Any, end: int, steps: Any, step: int, at: int, entries: Any) -> int:
    """Write the entries of a step, up to row ``end``, behind the first ``at`` ones; how many there are then."""
    for i in range(steps[step, START], end + 1):
        if rows[JUDGED, i] == 0 or rows[CAME, i] >= steps[step, END] or rows[LISTED, i] == 0:
            continue
        held = rows[HOLDS, i] if rows[CAME, i] < steps[step, FIRST] else 0
        flags = held * HELD_BIT + rows[OLD_HITS, i] * HIT_BIT + rows[NOW_HOLDS, i] * HOLDS_BIT
        entries[at, STEP], entries[at, PLACE] = step, i
        entries[at, FLAGS] = flags + rows[NOW_HITS, i] * HITS_BIT + rows[TOLD, i] * TOLD_BIT
        entries[at, WAS_WHOLE], entries[at, WAS_COUNT] = rows[OLD_WHOLE, i], rows[OLD_COUNT, i]
        entries[at, IS_WHOLE], entries[at, IS_COUNT] = rows[WHOLE, i], rows[COUNT_IN, i]
        at += 1
    return at


@jit
def _settle(rows: Any, start: int, end: int, came: int) -> None:
    """What was decided of the rows from ``start`` to ``end`` that are there stands from now on."""
    for i in range(start, end + 1):
        if rows[JUDGED, i] != 0 and rows[CAME, i] < came:
            rows[HOLDS, i], rows[HITS, i] = rows[NOW_HOLDS, i], rows[NOW_HITS, i]
            rows[TOLD, i] |= rows[NOW_HITS, i]


def _run(rows: Any, order: Any, line: Any, real: Any, seen: Any, progress: Any, steps: Any, entries: Any) -> int:
    """Let records come, step by step, until all have or the entries of a step may not fit.

    ``order``: the places of all rows as they came. The first call decides the rows that were there, of which nothing
    is listed. 1: there is more to come.
    """
    count = len(order)
    if progress[STEPS] == 0 and progress[TOP] >= 0:
        _decide(rows, line, real, 0, progress[TOP], progress[NEXT], progress[NEXT])
        _settle(rows, 0, progress[TOP], progress[NEXT])
    while progress[NEXT] < count:
        if progress[ENTRIES] + count > len(entries):
            return 1
        first, top, step = progress[NEXT], progress[TOP], progress[STEPS]
        start = order[first]
        for i in range(start, top + 1):
            rows[OLD_WHOLE, i], rows[OLD_COUNT, i] = rows[WHOLE, i], rows[COUNT_IN, i]
        if start < top:
            _insert(rows, line, seen, start, top)
        top, end = max(top, start), first + 1
        while end < count and order[end] > top:
            top = order[end]
            end += 1
        some, alert = _decide(rows, line, real, start, top, first, end)
        steps[step, FIRST], steps[step, END], steps[step, START], steps[step, ALERT] = first, end, start, alert
        steps[step, LATE] = 1 if start < progress[TOP] else 0
        if some != 0:
            progress[ENTRIES] = _list(rows, top, steps, step, progress[ENTRIES], entries)
        _settle(rows, start, top, end)
        progress[NEXT], progress[TOP], progress[STEPS] = end, top, step + 1
    return 0


# Of a hit whose evidence is sought. END_ROW: the place of its row; CAME_MAX: how many rows had come; WANTED: so many of
# the records in its window, the last ones; LINE: of ``windows`` (RIGHT_OPEN, WITH_ITSELF) and ``enters``.
EVIDENCE_FIELDS = 4
END_ROW, CAME_MAX, WANTED, LINE = range(EVIDENCE_FIELDS)
RIGHT_OPEN, WITH_ITSELF = range(2)


def _evidence(clock_ms: Any, came: Any, enters: Any, windows: Any, hits: Any, found: Any, ends: Any) -> None:
    """Of each hit the rows that it rests on, in order, one hit behind the other; ``ends``: where those of each end.

    ``clock_ms``, ``came`` (how many came before) and ``enters`` (by line, whether it is in windows) are of rows in
    order. ``found`` has room for all that are wanted.
    """
    first = 0
    for i in range(len(hits)):
        line, row = hits[i, LINE], hits[i, END_ROW]
        last = first + hits[i, WANTED]
        at, latest_ms = last, clock_ms[row] - windows[line, RIGHT_OPEN]
        if windows[line, WITH_ITSELF] != 0 and at > first:
            at -= 1
            found[at] = row
        row -= 1
        while at > first and row >= 0:
            if enters[line, row] != 0 and came[row] < hits[i, CAME_MAX] and clock_ms[row] <= latest_ms:
                at -= 1
                found[at] = row
            row -= 1
        for each in range(at, last):
            found[first + each - at] = found[each]
        first += last - at
        ends[i] = first


def evidence(clock_ms: I64, came: I64, enters: U8, windows: I64, hits: I64) -> tuple[I64, I64]:
    """What ``_evidence`` finds, and the offsets of what is of each hit."""
    found, ends = np.empty(int(hits[:, WANTED].sum()), np.int64), np.zeros(len(hits) + 1, np.int64)
    compiled_evidence()(clock_ms, came, enters, windows, hits, found, ends[1:])
    return found[: ends[-1]], ends


@cache
def compiled_evidence() -> Any:
    """``_evidence``, in the same way as ``compiled``."""
    kernel = Kernel(_evidence, lambda: digest("crossline.state.retraction"), {"error_model": "numpy", "_nrt": False})
    return kernel.of("<i8 1 C", "<i8 1 C", "|u1 2 C", "<i8 2 C", "<i8 2 C", "<i8 1 C", "<i8 1 C")


@cache
def compiled() -> Any:
    """``_run``, compiled, or loaded from what an earlier process compiled."""
    kernel = Kernel(_run, lambda: digest("crossline.state.retraction"), {"error_model": "numpy", "_nrt": False})
    kinds = ("<i8 2 C", "<i8 1 C", "<i8 1 C", "<f8 1 C", "<i8 1 C", "<i8 1 C", "<i8 2 C", "<i8 2 C")
    return kernel.of(*kinds)


def new_progress(held: int, top: int) -> Any:
    """Before anything comes: ``held`` rows are there, the last at the place ``top``, -1: none."""
    progress = np.zeros(PROGRESS_FIELDS, np.int64)
    progress[NEXT], progress[TOP] = held, top
    return progress
