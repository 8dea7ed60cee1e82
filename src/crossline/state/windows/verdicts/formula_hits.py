"""Hits of formulas: which formulas emit, and the windows and records that their hits rest on."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit
from crossline.state.memory.addresses import sat_at
from crossline.state.memory.fields import get, load
from crossline.state.windows.verdicts.applicable_rules import judging, remember
from crossline.state.windows.verdicts.comparison import figure_place, note_records
from crossline.state.windows.verdicts.record_emission import emits, hits_fit, note_hit


@jit
def emit_rows(h: int, start: int) -> Any:
    """Go through the rows from ``start``, at which the predicates in HOLDS hold.

    The row to go on from, as of ``judge_rows``, which has judged all of them.
    """
    formulas, rows = get(h, at.FORMULAS), get(h, at.ROW_END)
    for row in range(start, rows):
        if not hits_fit(h, formulas):
            return row
        i = get(h, at.ROW_RECORD, row)
        if i < 0 or judging(h, i, row) == 0:
            continue
        slot = get(h, at.SLOT, i)
        if _some_hold(h, slot, row):
            _emit_row(h, slot, i, row)
        remember(h, slot, i, get(h, at.LINE_CLASSES), get(h, at.CLASSES))
    return rows


@jit
def _some_hold(h: int, slot: int, row: int) -> Any:
    """Whether some formula holds at ``row``, or may have held at a record of its key before: mostly none does."""
    formulas, some = get(h, at.FORMULAS), 0
    for f in range(formulas):
        some |= get(h, at.HOLDS, row * formulas + f)
    for byte in range(get(h, at.LINES) >> 3, get(h, at.LINE_BYTES)):  # the first has bits of lines, too
        some |= load(sat_at(h, slot, byte), at.SAT)
    return some != 0


@jit
def _emit_row(h: int, slot: int, i: int, row: int) -> None:
    """Emit the formulas that hold at record ``i`` and judge it, and remember which do."""
    formulas = get(h, at.FORMULAS)
    for f in range(formulas):
        k = get(h, at.FORMULA_CLASS, f)
        if get(h, at.ACTIVE, k):
            holds = get(h, at.HOLDS, row * formulas + f) != 0
            if emits(h, slot, get(h, at.LINES) + f, k, i, holds):
                _note(h, f, i, row)


@jit
def _note(h: int, f: int, i: int, row: int) -> None:
    """Note a hit of formula ``f`` at record ``i``; what is shown as its value is known outside."""
    count = get(h, at.FIGURE_I, figure_place(h, row, get(h, at.FORMULA_COUNT, f)))
    n = note_hit(h, get(h, at.LINES) + f, row, 0, 0, 0.0, count)
    note_records(h, n, 0, get(h, at.FORMULA_WINDOW, f), count, i)
