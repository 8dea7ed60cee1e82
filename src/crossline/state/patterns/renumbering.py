"""Closing the ranks of steps of partial matches, once records have new numbers."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import jit
from crossline.state.memory.addresses import match_step_row, waiting_at
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.records.hash_tables import copy_bytes

WIDTH = at.MATCH_STEP.bytes


@jit
def renumber_match_steps(h: int) -> None:
    """Keep the steps of partial matches of what waits, each match's side by side, and no free rows.

    KEPT has room for all. Records get the new numbers in NUMBER; what began with one that is gone waits no
    longer. All others of a match are not before its first, by clock, so they are there.
    """
    kept = 0
    for slot in range(get(h, at.N_SLOTS)):
        for k in range(get(h, at.MATCH_STATES)):
            place = waiting_at(h, slot, k)
            step = load(place, at.WAITING)
            if step < 0:
                continue
            began = _number(h, get(h, at.BEGAN, step))
            if began < 0:
                store(place, at.WAITING, -1)
                continue
            store(place, at.WAITING, kept)
            kept = _keep(h, step, began, kept)
    copy_bytes(address(h, at.KEPT), address(h, at.MATCH_STEPS), WIDTH * kept)
    put(h, at.N_MATCH_STEPS, kept)
    put(h, at.FREE_MATCH_STEP, -1)


@jit
def _number(h: int, record: int) -> Any:
    """The number that a record has now; -1 where it is gone."""
    return get(h, at.NUMBER, record)


@jit
def _keep(h: int, step: int, began: int, kept: int) -> Any:
    """Put a match's steps of partial matches at ``kept`` and after, the last first; where the next match's go."""
    while step >= 0:
        row, to = match_step_row(h, step), address(h, at.KEPT) + WIDTH * kept
        step, kept = load(row, at.PRIOR), kept + 1
        store(to, at.BY, _number(h, load(row, at.BY)))
        store(to, at.PRIOR, kept if step >= 0 else -1)
        store(to, at.BEGAN, began)
    return kept
