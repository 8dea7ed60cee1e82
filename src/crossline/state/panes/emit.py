"""Figures that were told of a row against the lines that judge it: which of them emit."""

from __future__ import annotations

from typing import Any

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
from crossline.state.memory.header import item, item_f, tally, word
from crossline.state.panes import layout as at
from crossline.state.panes.moving import edge
from crossline.state.panes.reach import call_slot, emitted_at, judged_at, sat_at
from crossline.state.panes.tables import AHEAD


@jit
def hits_fit(h: int) -> Any:
    """Whether there is room for the hits of one row more."""
    return tally(h, at.N_HITS) + word(h, at.JUDGING) <= word(h, at.OUT_ROOM)


@jit
def _within(h: int, x: int, whole: int, up: int) -> Any:
    """Whether whole + up * 2^64 is within the bounds of line ``x``."""
    if up == 0:
        return item(h, at.LOW_I, x) <= whole <= item(h, at.HIGH_I, x)
    low, high = item(h, at.LOW_UP, x), item(h, at.HIGH_UP, x)
    above = up > low or (up == low and whole >= item(h, at.LOW_REST, x))
    return above and (up < high or (up == high and whole <= item(h, at.HIGH_REST, x)))


@inlined
def _holds(h: int, x: int, told: int) -> Any:
    """Whether line or formula ``x`` is satisfied by the figures of row ``told`` of those told; by none it is not."""
    if x >= word(h, at.LINES):
        formulas = word(h, at.JUDGING) - word(h, at.LINES)
        return load_u8(word(h, at.HOLDS) + told * formulas + x - word(h, at.LINES)) != 0
    place = told * word(h, at.TOLD) + item(h, at.LINE_TOLD, x)
    if load_u8(word(h, at.TOLD_OK) + place) == 0:
        return False
    if item(h, at.LINE_REAL, x):
        real = load_f64(word(h, at.TOLD_F) + 8 * place)
        within = item_f(h, at.LOW_F, x) <= real <= item_f(h, at.HIGH_F, x)
    else:
        within = _within(h, x, load_i64(word(h, at.TOLD_I) + 8 * place), load_i64(word(h, at.TOLD_UP) + 8 * place))
    return within != (item(h, at.NEGATED, x) != 0)


@jit
def _satisfy(h: int, slot: int, x: int, row: int, now: int, holds: bool) -> Any:
    """Whether line ``x``, which ``holds`` at the row or does not, emits there. What it remembers is changed."""
    mask, bits = 1 << (x & 7), sat_at(h, slot, x >> 3)
    held = load_u8(bits)
    if not holds:
        if held & mask:
            store_8(bits, held ^ mask)
        return False
    store_8(bits, held | mask)
    kept = load_i32(word(h, at.ROW_KEPT) + 4 * row)
    noted = word(h, at.ROW_SAT) + kept * word(h, at.LINE_BYTES) + (x >> 3)
    store_8(noted, load_u8(noted) | mask)
    if held & mask and item(h, at.LINE_EVERY, x) == 0:
        last = load_i64(judged_at(h, slot, item(h, at.LINE_CLASS, x)))
        if last >= edge(h, now, item(h, at.LINE_REARM, x), item(h, at.LINE_EXACT, x)):
            return False
    cooling = item(h, at.LINE_COOLING, x)
    if cooling >= 0:
        last = load_i64(emitted_at(h, slot, cooling))
        if last != at.NONE_MS and now < last + item(h, at.LINE_COOLDOWN, x):
            return False
        store_64(emitted_at(h, slot, cooling), now)
        n = tally(h, at.N_EMITTED)
        store_32(word(h, at.OUT_EMITTED) + 8 * n, x)
        store_32(word(h, at.OUT_EMITTED) + 8 * n + 4, kept)
        store_64(h + 8 * at.N_EMITTED, n + 1)
    return True


@jit
def _note(h: int, x: int, row: int, told: int) -> None:
    """Write down a hit of ``x``; the value of a formula is known outside."""
    n, whole, up, real = tally(h, at.N_HITS), 0, 0, 0.0
    if x < word(h, at.LINES):
        place = told * word(h, at.TOLD) + item(h, at.LINE_TOLD, x)
        if item(h, at.LINE_REAL, x):
            real = load_f64(word(h, at.TOLD_F) + 8 * place)
        else:
            whole, up = load_i64(word(h, at.TOLD_I) + 8 * place), load_i64(word(h, at.TOLD_UP) + 8 * place)
    count = told * word(h, at.CURSORS) + item(h, at.LINE_CURSOR, x)
    store_32(word(h, at.OUT_LINE) + 4 * n, x)
    store_32(word(h, at.OUT_ROW) + 4 * n, row)
    store_64(word(h, at.OUT_VALUE_I) + 8 * n, whole)
    store_64(word(h, at.OUT_VALUE_UP) + 8 * n, up)
    store_f64(word(h, at.OUT_VALUE_F) + 8 * n, real)
    store_64(word(h, at.OUT_COUNT) + 8 * n, load_i64(word(h, at.COUNTS) + 8 * count))
    store_64(h + 8 * at.N_HITS, n + 1)


@inlined
def emit_row(h: int, slot: int, row: int, told: int) -> None:
    """Note the hits of a row, whose figures are row ``told`` of those told, and what its lines remember."""
    classes = word(h, at.CLASSES)
    now, active = item(h, at.CLOCK_MS, row), word(h, at.ACTIVE) + row * classes
    for x in range(word(h, at.JUDGING)):
        if load_u8(active + item(h, at.LINE_CLASS, x)) and _satisfy(h, slot, x, row, now, _holds(h, x, told)):
            _note(h, x, row, told)
    for k in range(classes):
        if load_u8(active + k):
            store_64(judged_at(h, slot, k), now)


@jit
def emit_rows(h: int, start: int) -> Any:
    """Go through the rows of the piece from ``start``, of which figures and formulas were told, and note the hits.

    The row to go on from: an earlier one where room for hits is wanted.
    """
    first, end = word(h, at.PIECE_FROM), word(h, at.PIECE_END)
    for row in range(start, end):
        if row + AHEAD // 2 < end:
            call_slot(h, load_i32(word(h, at.ROW_SLOT) + 4 * (row + AHEAD // 2)))
        if not hits_fit(h):
            return row
        slot = load_i32(word(h, at.ROW_SLOT) + 4 * row)
        if slot >= 0:
            emit_row(h, slot, row, row - first)
    return end
