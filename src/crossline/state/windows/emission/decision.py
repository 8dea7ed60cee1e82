"""When a line emits: it is satisfied, it was not at the key's record before, and its cooldown is over.

A line emits at a record that satisfies it

1. if it emits at every such record, or was not satisfied at the record that it judged before, or that record is out of
   its window by now; and
2. if it has no cooldown, or ``cooldown_ms`` have passed, by the clock, since it last emitted for the key.

Whether it emits or not, a line that is satisfied is marked at the record (``ROW_SAT``), and an emission of a line with
a cooldown is noted (``EMITTED_LINE``, ``EMITTED_KEPT``): both go into segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import get, load, put, store
from crossline.state.windows.emission.words import NONE_MS, EmissionWords


def still_counts(judged_ms: int, since_ms: int) -> bool:
    """Whether the record judged before is in the window that begins at ``since_ms``; NONE_MS: there was none."""
    return judged_ms >= since_ms


def is_cooling(emitted_ms: int, cooldown_ms: int, now_ms: int) -> bool:
    """Whether ``now_ms`` is in the cooldown after an emission at ``emitted_ms``; NONE_MS: there was none."""
    return emitted_ms != NONE_MS and now_ms < emitted_ms + cooldown_ms


_still_counts, _is_cooling = jit(still_counts), jit(is_cooling)


@dataclass(frozen=True, slots=True)
class EmissionMemory:
    """Access to a kernel's emission state: compiled functions of ``h``, the address of its words.

    ``at`` is what is judged, as the kernel numbers it: a record of windows and patterns, a row of panes.

    Attributes:
        kept: (h, at) to its number among those that the batch has added.
        clock_ms: (h, at) to its clock.
        satisfied_at: (h, slot, byte) to the address of the bits of 8 lines.
        judged_ms: (h, slot, class) to the clock of the last record judged, or NONE_MS.
        since_ms: (h, line, now_ms) to the first clock in the window of a record of ``now_ms``.
        emitted_ms: (h, slot, column) to the clock of the last emission, or NONE_MS.
        emits_at: (h, slot, column, at) remembers an emission.
    """

    kept: Callable[..., Any]
    clock_ms: Callable[..., Any]
    satisfied_at: Callable[..., Any]
    judged_ms: Callable[..., Any]
    since_ms: Callable[..., Any]
    emitted_ms: Callable[..., Any]
    emits_at: Callable[..., Any]


class EmissionFunctions(NamedTuple):
    """Compiled functions of one kernel; ``line``: the number of a line or formula in the plan.

    Attributes:
        mark: (h, at, line) marks a line as satisfied at a record.
        cools: (h, slot, line, at) to whether its cooldown holds it back; an emission is remembered and noted.
        emits: (h, slot, line, class, at, holds) to whether a line, which ``holds`` or does not, emits. What it
            remembers of the key is changed.
    """

    mark: Any
    cools: Any
    emits: Any


def emission_functions(words: EmissionWords, memory: EmissionMemory) -> EmissionFunctions:
    """The decisions over the memory of one kernel."""
    mark, cools = _mark_in(words, memory), _cools_in(words, memory)
    satisfied_at, judged_ms, since_ms, clock_ms = (
        memory.satisfied_at,
        memory.judged_ms,
        memory.since_ms,
        memory.clock_ms,
    )
    every, sat = words.EVERY, words.SAT

    @inlined
    def emits(h: int, slot: int, line: int, judges: int, at: int, holds: bool) -> Any:
        mask, bits = 1 << (line & 7), satisfied_at(h, slot, line >> 3)
        held = load(bits, sat)
        if not holds:
            if held & mask:
                store(bits, sat, held ^ mask)
            return False
        store(bits, sat, held | mask)
        mark(h, at, line)
        if held & mask and get(h, every, line) == 0:  # noqa: SIM102 - the clocks are read where they are needed
            if _still_counts(judged_ms(h, slot, judges), since_ms(h, line, clock_ms(h, at))):
                return False
        return not cools(h, slot, line, at)

    return EmissionFunctions(mark, cools, emits)


def _mark_in(words: EmissionWords, memory: EmissionMemory) -> Any:
    kept, row_sat, line_bytes = memory.kept, words.ROW_SAT, words.LINE_BYTES

    @inlined
    def mark(h: int, at: int, line: int) -> None:
        byte = kept(h, at) * get(h, line_bytes) + (line >> 3)
        put(h, row_sat, byte, get(h, row_sat, byte) | (1 << (line & 7)))

    return mark


def _cools_in(words: EmissionWords, memory: EmissionMemory) -> Any:
    kept, clock_ms, emitted_ms, emits_at = memory.kept, memory.clock_ms, memory.emitted_ms, memory.emits_at
    cooldown, cooldown_col = words.COOLDOWN, words.COOLDOWN_COL
    n_emitted, emitted_line, emitted_kept = words.N_EMITTED, words.EMITTED_LINE, words.EMITTED_KEPT

    @jit
    def cools(h: int, slot: int, line: int, at: int) -> Any:
        column = get(h, cooldown_col, line)
        if column < 0:
            return False
        if _is_cooling(emitted_ms(h, slot, column), get(h, cooldown, line), clock_ms(h, at)):
            return True
        emits_at(h, slot, column, at)
        n = get(h, n_emitted)
        put(h, emitted_line, n, line)
        put(h, emitted_kept, n, kept(h, at))
        put(h, n_emitted, n + 1)
        return False

    return cools
