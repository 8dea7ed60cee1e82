"""A record's figures against the lines that judge it: which of them emit, and what their hits rest on."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import (
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
from crossline.state.memory.header import (
    before,
    clock,
    emitted_at,
    enters,
    item,
    item_f,
    judged_at,
    sat_at,
    tally,
    window_at,
    word,
)
from crossline.state.windows.figures import settle, settled_spread
from crossline.state.windows.program import COUNT, INTEGERS

EVIDENCE_MAX = 50
COUNT_NOW = -1


@jit
def count_up(h: int, name: int) -> Any:
    """The count before it goes up by one."""
    n = tally(h, name)
    store_64(h + 8 * name, n + 1)
    return n


@inlined
def judging(h: int, i: int, row: int) -> Any:
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


@inlined
def judged_by(h: int, c: int) -> Any:
    """Whether a class that is marked judges by cursor ``c``."""
    judged = 0
    for k in range(item(h, at.CLASS_AT, c), item(h, at.CLASS_AT, c + 1)):
        judged |= load_u8(word(h, at.ACTIVE) + item(h, at.CLASS_OF, k))
    return judged != 0


@inlined
def counted_in(h: int, c: int, i: int) -> Any:
    """Record ``i`` where it is counted into cursor ``c`` though the window ends before it, else -1."""
    if item(h, at.ADDS, c) == 0:
        return -1
    return i if enters(h, i, item(h, at.ENTRY, c)) else -1


@jit
def tell(h: int, slot: int, c: int, g: int, row: int, extra: int, defined: bool) -> None:
    """Write down the figure of group ``g``, which stands at FIGURE if it is defined, to be read later."""
    if defined and load_f64(word(h, at.FIGURE) + 16) != 0.0:
        settled_spread(h, slot, c, g, extra)
    figure_at, place = word(h, at.FIGURE), row * word(h, at.TOLD) + item(h, at.GROUP_TOLD, g)
    store_8(word(h, at.TOLD_OK) + place, 1 if defined else 0)
    store_64(word(h, at.TOLD_I) + 8 * place, load_i64(figure_at))
    up = 0 if item(h, at.GROUP_KIND, g) == COUNT else load_i64(figure_at + 24)
    store_64(word(h, at.TOLD_UP) + 8 * place, up)
    store_f64(word(h, at.TOLD_F) + 8 * place, load_f64(figure_at + 8))


@inlined
def remember(h: int, slot: int, i: int, start: int, end: int) -> None:
    """Record ``i`` is the last judged by those of the classes from ``start`` to ``end`` that judged it."""
    for k in range(start, end):
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


@inlined
def compare(h: int, slot: int, c: int, g: int, i: int, row: int, extra: int, count: int, defined: bool) -> None:
    """Judge record ``i`` by the lines of group ``g``, whose value stands at FIGURE if it is defined.

    ``count``: entries of its window, or COUNT_NOW where they are those of the cursor as it stands.
    """
    kind = item(h, at.GROUP_KIND, g)
    is_int = kind < INTEGERS
    whole, real = load_i64(word(h, at.FIGURE)), load_f64(word(h, at.FIGURE) + 8)
    up = 0 if kind == COUNT else load_i64(word(h, at.FIGURE) + 24)
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
        noted = word(h, at.ROW_SAT) + kept(h, i) * word(h, at.LINE_BYTES) + (line >> 3)
        store_8(noted, load_u8(noted) | mask)
        if held & mask and item(h, at.EVERY, x) == 0:
            last = load_i32(judged_at(h, slot, judges))
            edge = clock(h, i) - item(h, at.WINDOW, c) - item(h, at.LEFT_CLOSED, c)
            if last >= 0 and clock(h, last) > edge:
                continue
        if cooling(h, slot, item(h, at.COOLDOWN_COL, x), item(h, at.COOLDOWN, x), i, line):
            continue
        if load_f64(word(h, at.FIGURE) + 16) != 0.0 and not is_int:
            settle(h, slot, c, g, extra)
            real = load_f64(word(h, at.FIGURE) + 8)
        n = tally(h, at.N_HITS)
        store_8(word(h, at.OUT_IS_INT) + n, 1 if is_int else 0)
        store_64(word(h, at.OUT_VALUE_I) + 8 * n, whole if is_int else 0)
        store_64(word(h, at.OUT_VALUE_UP) + 8 * n, up)
        store_f64(word(h, at.OUT_VALUE_F) + 8 * n, 0.0 if is_int else real)
        in_window = count if count >= 0 else load_i32(window_at(h, slot, c) + at.COUNT_OF) + (1 if extra >= 0 else 0)
        note(h, line, c, in_window, i, row)


@jit
def cooling(h: int, slot: int, column: int, cooldown_ms: int, i: int, line: int) -> Any:
    """Whether ``line`` may not emit at record ``i`` yet; if it may, the emission is remembered in ``column``."""
    if column < 0:
        return False
    last_at = emitted_at(h, slot, column)
    last = load_i32(last_at)
    if last >= 0 and clock(h, i) < clock(h, last) + cooldown_ms:
        return True
    store_32(last_at, i)
    noted = word(h, at.OUT_EMITTED) + 8 * count_up(h, at.N_EMITTED)
    store_32(noted, line)
    store_32(noted + 4, kept(h, i))
    return False


@jit
def kept(h: int, i: int) -> Any:
    """The number of record ``i`` among those that the batch has added."""
    return i - (tally(h, at.N_RECORDS) - tally(h, at.N_RETAINED))


@jit
def note(h: int, line: int, c: int, count: int, i: int, row: int) -> None:
    """Write a hit down but for its value: its window, of ``count`` records, and those that it rests on."""
    n, start = count_up(h, at.N_HITS), tally(h, at.N_EVIDENCE)
    to = start + min(count, EVIDENCE_MAX)
    high = clock(h, i) - item(h, at.DELAY, c)
    store_32(word(h, at.OUT_LINE) + 4 * n, line)
    store_32(word(h, at.OUT_ROW) + 4 * n, row)
    store_64(word(h, at.OUT_COUNT) + 8 * n, count)
    store_64(word(h, at.OUT_START) + 8 * n, high - item(h, at.WINDOW, c))
    store_64(word(h, at.OUT_END) + 8 * n, high)
    store_64(word(h, at.OUT_EVIDENCE_END) + 8 * n, to)
    store_64(h + 8 * at.N_EVIDENCE, to)
    # The window of then: what is before the record in its key's list and was there when it came. Records of the same
    # clock stand in ingest order, so those that came later are behind it.
    r = i
    while to > start:
        if _in_window(h, c, r, i, high):
            to -= 1
            store_32(word(h, at.OUT_EVIDENCE) + 4 * to, r)
        r = before(h, r)


@jit
def _in_window(h: int, c: int, r: int, i: int, high: int) -> Any:
    """Whether record ``r``, which does not stand behind ``i``, was in the window of ``i`` on the right side."""
    if r > i or not enters(h, r, item(h, at.ENTRY, c)):
        return False
    if r == i and item(h, at.DELAY, c) == 0:
        return item(h, at.INCLUDE, c) != 0
    return clock(h, r) <= high - item(h, at.RIGHT_OPEN, c)
