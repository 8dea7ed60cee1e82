"""Where a hit is noted: its line, its row, its figure, and how many records it is of."""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import jit, store_32, store_64, store_f64
from crossline.state.memory.header import tally, word
from crossline.state.windows.emission.words import HitWords


def hits_in(words: HitWords) -> Any:
    """The compiled function (h, line, row, whole, up, real, count) to the number of the hit, over one kernel's words.

    Its figure is ``whole`` + ``up`` * 2^64, or ``real``; what it is not is 0. There must be room for it.
    """
    n_hits, out_line, out_row, out_count = words.N_HITS, words.OUT_LINE, words.OUT_ROW, words.OUT_COUNT
    out_whole, out_up, out_real = words.OUT_VALUE_I, words.OUT_VALUE_UP, words.OUT_VALUE_F

    @jit
    def note_hit(h: int, line: int, row: int, whole: int, up: int, real: float, count: int) -> Any:
        n = tally(h, n_hits)
        store_32(word(h, out_line) + 4 * n, line)
        store_32(word(h, out_row) + 4 * n, row)
        store_64(word(h, out_whole) + 8 * n, whole)
        store_64(word(h, out_up) + 8 * n, up)
        store_f64(word(h, out_real) + 8 * n, real)
        store_64(word(h, out_count) + 8 * n, count)
        store_64(h + 8 * n_hits, n + 1)
        return n

    return note_hit
