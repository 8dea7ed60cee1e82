"""Where the kernel writes the output figures of a piece of a batch: each figure a column, which formulas read at once.

Columns are not a power of two apart, so that the cache holds the lines that the kernel writes to at a row, one of each
column, until the next row.
"""

from __future__ import annotations

import numpy as np

from crossline.state.memory import layout as at
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.verdicts.formulas import KernelFigures

_LINE = 8  # values of a line of the cache


class FigureColumns:
    """Room for ``figures`` of up to ``rows`` rows, used for one piece after the other."""

    def __init__(self, memory: MemoryMap, rows: int, figures: int) -> None:
        stride = (-(-rows // _LINE) | 1) * _LINE + _LINE * _LINE
        self._memory = memory
        self._whole = np.zeros((figures, stride), np.int64)
        self._up = np.zeros((figures, stride), np.int64)
        self._defined = np.zeros((figures, stride), np.uint8)
        self._used = False
        words = memory.words
        words[at.ROW_FIGURES], words[at.FIGURE_ROWS] = figures, stride

    def clear(self, start: int) -> None:
        """Have the kernel write the figures of the rows from ``start``, of which none is defined yet."""
        memory = self._memory
        if self._used:
            self._whole[:], self._defined[:] = 0, 0
            if memory.words[at.N_WIDE]:
                self._up[:] = 0
        self._used, memory.words[at.N_WIDE] = True, 0
        for name, array in (
            (at.FIGURE_I, self._whole),
            (at.FIGURE_F, self._whole.view(np.float64)),
            (at.FIGURE_UP, self._up),
            (at.FIGURE_DEFINED, self._defined),
        ):
            memory.keep(name, array)
            memory.words[name] -= start * array.itemsize

    def figures(self, rows: int) -> KernelFigures:
        """Those of the ``rows`` rows of the piece, as they stand: views, until the next piece."""
        whole = self._whole.T[:rows]
        wide = bool(self._memory.words[at.N_WIDE])
        return KernelFigures(whole, self._up.T[:rows], whole.view(np.float64), self._defined.T[:rows], wide)
