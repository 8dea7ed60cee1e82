"""What follows where formulas hold: which of them emit, and the windows and records that their hits rest on."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit, load_i32, load_i64, load_u8
from crossline.state.memory.header import item, row_of, word
from crossline.state.windows.verdicts.compare import note_records
from crossline.state.windows.verdicts.emission import emits, hits_fit, note_hit
from crossline.state.windows.verdicts.judging import judging, remember


@jit
def emit_rows(h: int, start: int) -> Any:
    """Go through the rows from ``start``, of which HOLDS says what holds.

    The row to go on from, as of ``judge_rows``, which has judged all of them.
    """
    formulas, rows = word(h, at.FORMULAS), word(h, at.ROW_END)
    for row in range(start, rows):
        if not hits_fit(h, formulas):
            return row
        i = load_i32(word(h, at.ROW_RECORD) + 4 * row)
        if i < 0 or not judging(h, i, row):
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        for f in range(formulas):
            k = item(h, at.FORMULA_CLASS, f)
            if load_u8(word(h, at.ACTIVE) + k):
                holds = load_u8(word(h, at.HOLDS) + row * formulas + f) != 0
                if emits(h, slot, word(h, at.LINES) + f, k, i, holds):
                    _note(h, f, i, row)
        remember(h, slot, i, word(h, at.LINE_CLASSES), word(h, at.CLASSES))
    return rows


@jit
def _note(h: int, f: int, i: int, row: int) -> None:
    """Note a hit of formula ``f`` at record ``i``; what is shown as its value is known outside."""
    count = load_i64(word(h, at.TOLD_I) + 8 * (row * word(h, at.TOLD) + item(h, at.FORMULA_COUNT, f)))
    n = note_hit(h, word(h, at.LINES) + f, row, 0, 0, 0.0, count)
    note_records(h, n, 0, item(h, at.FORMULA_CURSOR, f), count, i)
