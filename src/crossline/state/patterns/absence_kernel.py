"""The loop over a batch's rows for absences: store a record, answer pending deadlines, and start its own.

A record of an absence's entry ``after``, at t, waits for one of its key in the entry ``expect``, behind it by clock (at
the same time: ingested after it) and at t + DEADLINE at most. The answer must have come before the stream's clock
passed t + DEADLINE + GRACE. The clock at a record is the highest ingest time of its log so far, its REACHED. All of
that concerns two records only, so their order of arrival does not matter. An answer that comes later finds the waiting
records. A waiting record that comes later finds its answer.
"""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import after, before, bits_at, clock
from crossline.state.memory.fields import address, get, load, put
from crossline.state.records.lists import link_far
from crossline.state.windows.kernel import take_in
from crossline.state.windows.prefetch import find_keys, look_ahead


@jit
def meet_rows(h: int) -> None:
    """Take all rows in; each answers, and waits."""
    absences, rows, width = get(h, at.LINES), get(h, at.ROWS), get(h, at.FILTER_BYTES)
    find_keys(h)
    for row in range(rows):
        look_ahead(h, row, rows)
        i = take_in(h, row, get(h, at.INGEST_MS, row) - get(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        link_far(h, get(h, at.SLOT, i), i)
        put(h, at.REACHED, i, 0, get(h, at.ROW_REACHED, row))
        for b in range(get(h, at.ANSWER_BYTES)):
            put(h, at.ANSWERED, i, b, 0)
        for a in range(absences):
            _meet(h, i, a, address(h, at.ROW_FILTERS) + width * row)


@jit
def meet_all(h: int) -> None:
    """The same for the records that are held, for absences that are new."""
    for i in range(get(h, at.N_RECORDS)):
        for a in range(get(h, at.LINES)):
            _meet(h, i, a, bits_at(h, i, 0))


@inlined
def _meet(h: int, i: int, a: int, bits: int) -> None:
    """Let record ``i`` answer those that wait for it, and then, if it waits itself, be answered by what is there."""
    if _has(bits, get(h, at.EXPECT_FILTER, a)):
        _answer(h, i, a)
    if _has(bits, get(h, at.AFTER_FILTER, a)):
        _ask(h, i, a)


@jit
def _has(bits: int, entry: int) -> Any:
    """Whether a record is in an entry."""
    return (load(bits + (entry >> 3), at.BITS) >> (entry & 7)) & 1 != 0


@jit
def _reached(h: int, i: int) -> Any:
    return get(h, at.REACHED, i, 0)


@jit
def _mark(h: int, i: int, a: int) -> None:
    put(h, at.ANSWERED, i, a >> 3, get(h, at.ANSWERED, i, a >> 3) | (1 << (a & 7)))


@jit
def _answer(h: int, i: int, a: int) -> None:
    """Mark the records that record ``i`` answers, back to an earlier answer that already covers the rest."""
    entry, within, grace = get(h, at.AFTER_FILTER, a), get(h, at.DEADLINE, a), get(h, at.GRACE, a)
    reached, since, r = _reached(h, i), clock(h, i) - within, before(h, i)
    while r >= 0 and clock(h, r) >= since:
        bits = bits_at(h, r, 0)
        if _has(bits, entry) and reached <= clock(h, r) + within + grace:
            _mark(h, r, a)
        if _has(bits, get(h, at.EXPECT_FILTER, a)) and _reached(h, r) <= clock(h, r) + grace:
            return
        r = before(h, r)


@jit
def _ask(h: int, i: int, a: int) -> None:
    """Mark record ``i``, which waits, if what answers it is there already: then it came late."""
    until = clock(h, i) + get(h, at.DEADLINE, a)
    due, r = until + get(h, at.GRACE, a), after(h, i)
    while r >= 0 and clock(h, r) <= until:
        if _has(bits_at(h, r, 0), get(h, at.EXPECT_FILTER, a)) and _reached(h, r) <= due:
            _mark(h, i, a)
            return
        r = after(h, r)
