"""Emission over the record store: the state of a line and key are numbers of records, which give the clocks."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit
from crossline.state.memory.addresses import clock, sat_at
from crossline.state.memory.fields import get, put
from crossline.state.windows.emission.bounds import bounds_in
from crossline.state.windows.emission.decision import EmissionMemory, emission_functions
from crossline.state.windows.emission.hits import hits_in
from crossline.state.windows.emission.words import NONE_MS

EVIDENCE_MAX = 50


@jit
def kept(h: int, i: int) -> Any:
    """The number of record ``i`` among those that the batch has added."""
    return i - (get(h, at.N_RECORDS) - get(h, at.N_RETAINED))


@jit
def _clock_of(h: int, record: int) -> Any:
    """The clock of a record; of none, none."""
    return clock(h, record) if record >= 0 else NONE_MS


@jit
def _judged_ms(h: int, slot: int, k: int) -> Any:
    return _clock_of(h, get(h, at.JUDGED, slot, k))


@jit
def _since_ms(h: int, line: int, now_ms: int) -> Any:
    return now_ms - get(h, at.REARM, line) + 1


@jit
def _emitted_ms(h: int, slot: int, column: int) -> Any:
    return _clock_of(h, get(h, at.EMITTED, slot, column))


@jit
def _emits_at(h: int, slot: int, column: int, i: int) -> None:
    put(h, at.EMITTED, slot, column, i)


mark, cools, emits = emission_functions(
    at,
    EmissionMemory(
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
    if get(h, at.N_HITS) + most > get(h, at.OUT_ROOM):
        return False
    return get(h, at.N_EVIDENCE) + most * EVIDENCE_MAX <= get(h, at.EVIDENCE_ROOM)


@jit
def note_window(h: int, n: int, is_int: int, start_ms: int, end_ms: int, count: int) -> Any:
    """Note of hit ``n`` whether its figure is an integer, its window, and room for evidence of ``count`` records.

    Where in OUT_EVIDENCE that begins and ends: the last EVIDENCE_MAX of them have room.
    """
    start = get(h, at.N_EVIDENCE)
    end = start + min(count, EVIDENCE_MAX)
    put(h, at.OUT_IS_INT, n, is_int)
    put(h, at.OUT_START, n, start_ms)
    put(h, at.OUT_END, n, end_ms)
    put(h, at.OUT_EVIDENCE_END, n, end)
    put(h, at.N_EVIDENCE, end)
    return start, end
