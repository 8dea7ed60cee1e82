"""Emission over the record store: what a line remembers of a key are numbers of records, whose clocks are asked for."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit, load_i32, store_8, store_32, store_64
from crossline.state.memory.header import clock, emitted_at, item, judged_at, sat_at, tally, word
from crossline.state.windows.emission.bounds import bounds_in
from crossline.state.windows.emission.decision import NONE_MS, LineMemory, decisions_in
from crossline.state.windows.emission.hits import hits_in

EVIDENCE_MAX = 50


@jit
def kept(h: int, i: int) -> Any:
    """The number of record ``i`` among those that the batch has added."""
    return i - (tally(h, at.N_RECORDS) - tally(h, at.N_RETAINED))


@jit
def _clock_of(h: int, address: int) -> Any:
    """The clock of the record whose number stands at an address; of none, none."""
    record = load_i32(address)
    return clock(h, record) if record >= 0 else NONE_MS


@jit
def _judged_ms(h: int, slot: int, k: int) -> Any:
    return _clock_of(h, judged_at(h, slot, k))


@jit
def _since_ms(h: int, line: int, now_ms: int) -> Any:
    return now_ms - item(h, at.REARM, line) + 1


@jit
def _emitted_ms(h: int, slot: int, column: int) -> Any:
    return _clock_of(h, emitted_at(h, slot, column))


@jit
def _emits_at(h: int, slot: int, column: int, i: int) -> None:
    store_32(emitted_at(h, slot, column), i)


mark, cools, emits = decisions_in(
    at,
    LineMemory(
        kept=kept,
        clock_ms=clock,
        satisfied_at=sat_at,
        judged_ms=_judged_ms,
        since_ms=_since_ms,
        emitted_ms=_emitted_ms,
        emits_at=_emits_at,
    ),
)
meets_whole, meets_real = bounds_in(at)
note_hit = hits_in(at)


@jit
def hits_fit(h: int, most: int) -> Any:
    """Whether there is room for ``most`` hits more, and for what they rest on."""
    if tally(h, at.N_HITS) + most > word(h, at.OUT_ROOM):
        return False
    return tally(h, at.N_EVIDENCE) + most * EVIDENCE_MAX <= word(h, at.EVIDENCE_ROOM)


@jit
def note_window(h: int, n: int, is_int: int, start_ms: int, end_ms: int, count: int) -> Any:
    """Note of hit ``n`` whether its figure is an integer, its window, and room for evidence of ``count`` records.

    Where in OUT_EVIDENCE that begins and ends: the last EVIDENCE_MAX of them have room.
    """
    start = tally(h, at.N_EVIDENCE)
    end = start + min(count, EVIDENCE_MAX)
    store_8(word(h, at.OUT_IS_INT) + n, is_int)
    store_64(word(h, at.OUT_START) + 8 * n, start_ms)
    store_64(word(h, at.OUT_END) + 8 * n, end_ms)
    store_64(word(h, at.OUT_EVIDENCE_END) + 8 * n, end)
    store_64(h + 8 * at.N_EVIDENCE, end)
    return start, end
