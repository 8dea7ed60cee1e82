"""Output figures of a row against the thresholds that judge it: which of them emit."""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import get, put
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import call_slot, sat_at
from crossline.state.panes.key_table import AHEAD
from crossline.state.panes.rolling_window import edge
from crossline.state.windows.emission.bounds import bounds_in
from crossline.state.windows.emission.decision import EmissionMemory, emission_functions
from crossline.state.windows.emission.hits import hits_in


@jit
def hits_fit(h: int) -> Any:
    """Whether there is room for the hits of one row more."""
    return get(h, at.N_HITS) + get(h, at.JUDGING) <= get(h, at.OUT_ROOM)


@jit
def _kept(h: int, row: int) -> Any:
    """The number of a row among those that became records."""
    return get(h, at.ROW_KEPT, row)


@jit
def _clock_ms(h: int, row: int) -> Any:
    return get(h, at.CLOCK_MS, row)


@jit
def _judged_ms(h: int, slot: int, k: int) -> Any:
    return get(h, at.JUDGED, slot, k)


@jit
def _since_ms(h: int, x: int, now_ms: int) -> Any:
    return edge(h, now_ms, get(h, at.REARM, x), get(h, at.LINE_EXACT, x))


@jit
def _emitted_ms(h: int, slot: int, column: int) -> Any:
    return get(h, at.EMITTED, slot, column)


@jit
def _emits_at(h: int, slot: int, column: int, row: int) -> None:
    put(h, at.EMITTED, slot, column, get(h, at.CLOCK_MS, row))


_DECISIONS = emission_functions(
    at,
    EmissionMemory(
        kept=_kept,
        clock_ms=_clock_ms,
        satisfied_at=sat_at,
        judged_ms=_judged_ms,
        since_ms=_since_ms,
        emitted_ms=_emitted_ms,
        emits_at=_emits_at,
    ),
)
_emits = _DECISIONS.emits
_meets_whole, _meets_real = bounds_in(at)
_note_hit = hits_in(at)


@inlined
def _holds(h: int, x: int, figure_row: int) -> Any:
    """Whether line or formula ``x`` is satisfied by row ``figure_row`` of the output figures."""
    if x >= get(h, at.LINES):
        formulas = get(h, at.JUDGING) - get(h, at.LINES)
        return get(h, at.HOLDS, figure_row * formulas + x - get(h, at.LINES)) != 0
    place = figure_row * get(h, at.ROW_FIGURES) + get(h, at.LINE_FIGURE, x)
    if get(h, at.FIGURE_DEFINED, place) == 0:
        return False
    if get(h, at.LINE_REAL, x):
        return _meets_real(h, x, get(h, at.FIGURE_F, place))
    return _meets_whole(h, x, get(h, at.FIGURE_I, place), get(h, at.FIGURE_UP, place))


@jit
def _emits_there(h: int, slot: int, x: int, row: int, holds: bool) -> Any:
    """Whether line ``x``, which ``holds`` at the row or does not, emits there. What it remembers is changed."""
    return _emits(h, slot, x, get(h, at.LINE_CLASS, x), row, holds)


@jit
def _note(h: int, x: int, row: int, figure_row: int) -> None:
    """Write down a hit of ``x``; the value of a formula is known outside."""
    whole, up, real = 0, 0, 0.0
    if x < get(h, at.LINES):
        place = figure_row * get(h, at.ROW_FIGURES) + get(h, at.LINE_FIGURE, x)
        if get(h, at.LINE_REAL, x):
            real = get(h, at.FIGURE_F, place)
        else:
            whole, up = get(h, at.FIGURE_I, place), get(h, at.FIGURE_UP, place)
    count = figure_row * get(h, at.N_WINDOWS) + get(h, at.LINE_WINDOW, x)
    _note_hit(h, x, row, whole, up, real, get(h, at.COUNTS, count))


@inlined
def emit_row(h: int, slot: int, row: int, figure_row: int) -> None:
    """Note the hits of a row, with row ``figure_row`` of the output figures, and update the state of its lines."""
    classes = get(h, at.CLASSES)
    now, active = get(h, at.CLOCK_MS, row), row * classes
    for x in range(get(h, at.JUDGING)):
        if get(h, at.ACTIVE, active + get(h, at.LINE_CLASS, x)) and _emits_there(
            h, slot, x, row, _holds(h, x, figure_row)
        ):
            _note(h, x, row, figure_row)
    for k in range(classes):
        if get(h, at.ACTIVE, active + k):
            put(h, at.JUDGED, slot, k, now)


@jit
def emit_rows(h: int, start: int) -> Any:
    """Go through the rows of the piece from ``start``, whose figures and formulas are computed, and note the hits.

    The row to go on from: an earlier one where room for hits is wanted.
    """
    first, end = get(h, at.PIECE_FROM), get(h, at.PIECE_END)
    for row in range(start, end):
        if row + AHEAD // 2 < end:
            call_slot(h, get(h, at.ROW_SLOT, row + AHEAD // 2))
        if not hits_fit(h):
            return row
        slot = get(h, at.ROW_SLOT, row)
        if slot >= 0:
            emit_row(h, slot, row, row - first)
    return end
