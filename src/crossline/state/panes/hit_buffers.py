"""The hits of a batch, copied out of the kernel's buffers as these fill up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crossline.basics.values import I32
from crossline.state.batch import FormulaRead
from crossline.state.panes import layout as at
from crossline.state.panes.memory import Memory

ROOM = 4_096  # hits, beside those of one row
_COLUMNS = ("line", "row", "value_i", "value_up", "value_f", "count")
_WORDS = (at.OUT_LINE, at.OUT_ROW, at.OUT_VALUE_I, at.OUT_VALUE_UP, at.OUT_VALUE_F, at.OUT_COUNT)
_KINDS: tuple[Any, ...] = (np.int32, np.int32, np.int64, np.int64, np.float64, np.int64)


@dataclass(slots=True)
class Found:
    """``hits``: how many were copied. ``formula_reads``: what formulas read, by number of the hit."""

    hits: int = 0
    formula_reads: dict[int, FormulaRead] = field(default_factory=dict)
    _pieces: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    _emitted: list[Any] = field(default_factory=list)

    def listen(self, memory: Memory) -> None:
        """Give the kernel buffers for hits."""
        room = ROOM + int(memory.words[at.JUDGING])
        for name, kind in zip(_WORDS, _KINDS, strict=True):
            memory.keep(name, np.empty(room, kind))
        memory.keep(at.OUT_EMITTED, np.empty(room, np.int64))
        memory.words[at.OUT_ROOM], memory.words[at.N_HITS], memory.words[at.N_EMITTED] = room, 0, 0

    def take(self, memory: Memory) -> tuple[I32, I32]:
        """Empty the buffers: lines and rows of the hits that were there."""
        n, emitted = int(memory.words[at.N_HITS]), int(memory.words[at.N_EMITTED])
        for column, name in zip(_COLUMNS, _WORDS, strict=True):
            self._pieces[column].append(memory.kept(name)[:n].copy())
        self._emitted.append(memory.kept(at.OUT_EMITTED)[:emitted].copy().view(np.int32))
        memory.words[at.N_HITS] = memory.words[at.N_EMITTED] = 0
        self.hits += n
        return self._pieces["line"][-1], self._pieces["row"][-1]

    def columns(self) -> dict[str, Any]:
        """All hits: ``line``, ``row``, ``value_i``, ``value_up``, ``value_f``, ``count``."""
        return {
            name: np.concatenate([np.empty(0, kind), *self._pieces[name]])
            for name, kind in zip(_COLUMNS, _KINDS, strict=True)
        }

    def emitted(self) -> tuple[I32, I32]:
        """Lines with a cooldown that emitted, and at which number of those retained."""
        whole = np.concatenate([np.empty(0, np.int32), *self._emitted])
        return np.ascontiguousarray(whole[0::2]), np.ascontiguousarray(whole[1::2])
