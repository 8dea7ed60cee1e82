"""Where a hit is noted: its line, its row, its figure, and how many records it is of."""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import jit
from crossline.state.memory.fields import get, put
from crossline.state.windows.emission.words import HitWords


def hits_in(words: HitWords) -> Any:
    """The compiled function (h, line, row, whole, up, real, count) to the number of the hit, over one kernel's words.

    Its figure is ``whole`` + ``up`` * 2^64, or ``real``; what it is not is 0. There must be room for it.
    """
    n_hits, out_line, out_row, out_count = words.N_HITS, words.OUT_LINE, words.OUT_ROW, words.OUT_COUNT
    out_whole, out_up, out_real = words.OUT_VALUE_I, words.OUT_VALUE_UP, words.OUT_VALUE_F

    @jit
    def note_hit(h: int, line: int, row: int, whole: int, up: int, real: float, count: int) -> Any:
        n = get(h, n_hits)
        put(h, out_line, n, line)
        put(h, out_row, n, row)
        put(h, out_whole, n, whole)
        put(h, out_up, n, up)
        put(h, out_real, n, real)
        put(h, out_count, n, count)
        put(h, n_hits, n + 1)
        return n

    return note_hit
