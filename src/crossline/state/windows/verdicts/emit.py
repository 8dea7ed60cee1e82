"""What follows where formulas hold: which of them emit, and the windows and records that their hits rest on."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit, load_i32, load_i64, load_u8, store_8, store_64, store_f64
from crossline.state.memory.header import clock, item, judged_at, row_of, sat_at, tally, word
from crossline.state.windows.verdicts.compare import EVIDENCE_MAX, cooling, judging, kept, note, remember


@jit
def emit_rows(h: int, start: int) -> Any:
    """Go through the rows from ``start``, of which HOLDS says what holds.

    The row to go on from, as of ``judge_rows``, which has judged all of them.
    """
    formulas, rows = word(h, at.FORMULAS), word(h, at.ROW_END)
    for row in range(start, rows):
        if tally(h, at.N_HITS) + formulas > word(h, at.OUT_ROOM):
            return row
        if tally(h, at.N_EVIDENCE) + formulas * EVIDENCE_MAX > word(h, at.EVIDENCE_ROOM):
            return row
        i = load_i32(word(h, at.ROW_RECORD) + 4 * row)
        if i < 0 or not judging(h, i, row):
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        for f in range(formulas):
            if load_u8(word(h, at.ACTIVE) + item(h, at.FORMULA_CLASS, f)):
                _reach(h, slot, f, i, row, load_u8(word(h, at.HOLDS) + row * formulas + f) != 0)
        remember(h, slot, i, word(h, at.LINE_CLASSES), word(h, at.CLASSES))
    return rows


@jit
def _reach(h: int, slot: int, f: int, i: int, row: int, holds: bool) -> None:
    """Formula ``f`` ``holds`` at record ``i``, or not."""
    line = word(h, at.LINES) + f
    mask, bits = 1 << (line & 7), sat_at(h, slot, line >> 3)
    held = load_u8(bits)
    if not holds:
        if held & mask:
            store_8(bits, held ^ mask)
        return
    store_8(bits, held | mask)
    noted = word(h, at.ROW_SAT) + kept(h, i) * word(h, at.LINE_BYTES) + (line >> 3)
    store_8(noted, load_u8(noted) | mask)
    if held & mask and item(h, at.FORMULA_EVERY, f) == 0:
        last = load_i32(judged_at(h, slot, item(h, at.FORMULA_CLASS, f)))
        if last >= 0 and clock(h, last) > clock(h, i) - item(h, at.FORMULA_REARM, f):
            return
    if cooling(h, slot, item(h, at.FORMULA_COOLDOWN_COL, f), item(h, at.FORMULA_COOLDOWN, f), i, line):
        return
    n, count = tally(h, at.N_HITS), row * word(h, at.TOLD) + item(h, at.FORMULA_COUNT, f)
    store_8(word(h, at.OUT_IS_INT) + n, 0)  # what is shown as its value is known outside
    store_64(word(h, at.OUT_VALUE_I) + 8 * n, 0)
    store_64(word(h, at.OUT_VALUE_UP) + 8 * n, 0)
    store_f64(word(h, at.OUT_VALUE_F) + 8 * n, 0.0)
    note(h, line, item(h, at.FORMULA_CURSOR, f), load_i64(word(h, at.TOLD_I) + 8 * count), i, row)
