"""Closing the ranks of taken steps, once records have new numbers."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit, load_i32, store_32, store_64
from crossline.state.memory.header import taken_row, tally, waiting_at, word
from crossline.state.records.tables import copy_bytes

WIDTH = at.STEPPED.bytes


@jit
def close_taken(h: int) -> None:
    """Keep the taken steps of what waits, each match's side by side, and no free rows.

    KEPT has room for all. Records have the new numbers that NUMBER says; what began with one that is gone waits no
    longer. All others of a match are not before its first, by clock, so they are there.
    """
    kept = 0
    for slot in range(tally(h, at.N_SLOTS)):
        for k in range(word(h, at.WAITS)):
            place = waiting_at(h, slot, k)
            taken = load_i32(place)
            if taken < 0:
                continue
            began = _number(h, load_i32(taken_row(h, taken) + at.BEGAN))
            if began < 0:
                store_32(place, -1)
                continue
            store_32(place, kept)
            kept = _keep(h, taken, began, kept)
    copy_bytes(word(h, at.KEPT), word(h, at.TAKEN), WIDTH * kept)
    store_64(h + 8 * at.N_TAKEN, kept)
    store_64(h + 8 * at.FREE_TAKEN, -1)


@jit
def _number(h: int, record: int) -> Any:
    """The number that a record has now; -1 where it is gone."""
    return load_i32(word(h, at.NUMBER) + 4 * record)


@jit
def _keep(h: int, taken: int, began: int, kept: int) -> Any:
    """Put a match's taken steps at ``kept`` and after, the last first; where the next match's go."""
    while taken >= 0:
        row, to = taken_row(h, taken), word(h, at.KEPT) + WIDTH * kept
        taken, kept = load_i32(row + at.PRIOR), kept + 1
        store_32(to + at.BY, _number(h, load_i32(row + at.BY)))
        store_32(to + at.PRIOR, kept if taken >= 0 else -1)
        store_32(to + at.BEGAN, began)
    return kept
