"""Instants of many things, each thing's in order: how many of them have passed at a time, for many at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossline.basics.values import I64


@dataclass(frozen=True, slots=True)
class Instants:
    """Thing i has ``instants_ms[firsts[i]:firsts[i + 1]]``, ascending.

    ``order``: the same instants as numbers that rise with (thing, instant), of ``ticks``, all instants there are.
    """

    firsts: I64
    instants_ms: I64
    ticks: I64
    order: I64

    @classmethod
    def of(cls, firsts: I64, instants_ms: I64) -> Instants:
        """Sorted out for looking up."""
        ticks = np.unique(instants_ms)
        thing = np.repeat(np.arange(len(firsts) - 1), np.diff(firsts))
        return cls(firsts, instants_ms, ticks, thing * (len(ticks) + 1) + np.searchsorted(ticks, instants_ms))

    def place(self, which: I64, at_ms: I64 | int) -> I64:
        """The place in ``instants_ms`` of the first instant of each thing ``which`` that is after ``at_ms``.

        ``firsts[which + 1]`` where none is.
        """
        passed = np.searchsorted(self.ticks, at_ms, side="right")
        found: I64 = np.searchsorted(self.order, which * (len(self.ticks) + 1) + passed, side="left")
        return found
