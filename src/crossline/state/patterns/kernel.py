"""The loop over a batch's rows: take a record in, offer it to the steps of each pattern, note the hits."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit, prefetch
from crossline.state.memory.addresses import bits_at, clock, match_step_row, row_of, slot_row, waiting_at
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.records.hash_tables import AHEAD
from crossline.state.windows.kernel import take_in
from crossline.state.windows.prefetch import SCOUTS_EACH, find_keys, look_ahead
from crossline.state.windows.verdicts.applicable_rules import in_force
from crossline.state.windows.verdicts.comparison import count_up
from crossline.state.windows.verdicts.record_emission import cools, hits_fit, mark, note_hit, note_window

WAITING, NAMED = 10, 5  # rows ahead: when steps of partial matches are called for, and when the records that they name


@jit
def judge_rows(h: int, start: int) -> Any:
    """Take rows in from ``start``, and offer each to the steps of all patterns; hits are noted where TELLING is not 0.

    The row to go on from: that of the batch's end, or earlier where what another row gives may not fit.
    """
    patterns, rows, width = get(h, at.LINES), get(h, at.ROWS), get(h, at.FILTER_BYTES)
    if start == 0:
        find_keys(h)
    for row in range(start, rows):
        look_ahead(h, row, rows)
        _look_ahead(h, row, rows)
        if not hits_fit(h, patterns):
            return row
        if get(h, at.N_MATCH_STEPS) + get(h, at.STEPS) > get(h, at.MATCH_STEP_ROOM):
            return row
        i = take_in(h, row, get(h, at.INGEST_MS, row) - get(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = get(h, at.SLOT, i)
        _stand(h, slot, i)
        bits = address(h, at.ROW_FILTERS) + width * row
        for p in range(patterns):
            if _concerned(h, p, bits, width):
                _offer(h, slot, i, row if get(h, at.NOTES_HITS) != 0 else -1, p, bits)
    return rows


@jit
def offer_all(h: int, start: int) -> Any:
    """Offer the records that are held, from number ``start``, to the steps of all patterns. None of it is a hit.

    The record to go on from, as of ``judge_rows``.
    """
    patterns, records, width = get(h, at.LINES), get(h, at.N_RECORDS), get(h, at.FILTER_BYTES)
    for i in range(start, records):
        if get(h, at.N_MATCH_STEPS) + get(h, at.STEPS) > get(h, at.MATCH_STEP_ROOM):
            return i
        slot, bits = get(h, at.SLOT, i), bits_at(h, i, 0)
        for p in range(patterns):
            if _concerned(h, p, bits, width):
                _offer(h, slot, i, -1, p, bits)
    return records


@inlined
def _look_ahead(h: int, row: int, rows: int) -> None:
    """Call for what waits for the rows soon to come, and then for the records and the step before that it names."""
    places = min(get(h, at.MATCH_STATES), SCOUTS_EACH)
    if row + AHEAD < rows:
        slot = get(h, at.KEY_SLOT, get(h, at.KEY_INDEX, row + AHEAD))
        if slot >= 0:
            prefetch(waiting_at(h, slot, places - 1))  # where the row of the slot goes over a line of memory
    if row + WAITING < rows:
        slot = get(h, at.KEY_SLOT, get(h, at.KEY_INDEX, row + WAITING))
        for k in range(places if slot >= 0 else 0):
            prefetch(match_step_row(h, get(h, at.WAITING, slot, k)))
    if row + NAMED < rows:
        slot = get(h, at.KEY_SLOT, get(h, at.KEY_INDEX, row + NAMED))
        for k in range(places if slot >= 0 else 0):
            waits = get(h, at.WAITING, slot, k)
            if waits >= 0:
                prefetch(row_of(h, get(h, at.BY, waits)))
                prefetch(row_of(h, get(h, at.BEGAN, waits)))
                if get(h, at.PRIOR, waits) >= 0:
                    prefetch(match_step_row(h, get(h, at.PRIOR, waits)))


@inlined
def _stand(h: int, slot: int, i: int) -> None:
    """Patterns need no list of a key's records: only its last by clock is known, with which the key goes."""
    row, keyed = row_of(h, i), slot_row(h, slot)
    store(row, at.BEFORE, -1)
    store(row, at.AFTER, -1)
    tail = load(keyed, at.TAIL)
    if tail < 0:
        put(h, at.N_VACANT, get(h, at.N_VACANT) - 1)
    if tail < 0 or clock(h, tail) <= clock(h, i):
        store(keyed, at.TAIL, i)


@inlined
def _concerned(h: int, p: int, bits: int, width: int) -> Any:
    """Whether any of the row's entries means anything to pattern ``p``."""
    some = 0
    for b in range(width):
        some |= get(h, at.CONCERNS, width * p + b) & load(bits + b, at.BITS)
    return some != 0


@jit
def _has(bits: int, entry: int) -> Any:
    """Whether a row is in an entry; in none below 0."""
    return entry >= 0 and (load(bits + (entry >> 3), at.BITS) >> (entry & 7)) & 1 != 0


@jit
def _judges(h: int, p: int, row: int) -> Any:
    """Whether pattern ``p`` judges the record of ``row``, so that a hit at it is one."""
    return in_force(h, p, get(h, at.INGEST_MS, row), get(h, at.LATENESS_MS, row))


@jit
def _offer(h: int, slot: int, i: int, row: int, p: int, bits: int) -> None:
    """Offer record ``i`` to the steps of pattern ``p``, the last first, and then let it end what it ends.

    ``row``: of the batch, at which a hit is noted; -1: it is not.
    """
    first, last, now = get(h, at.STEP_AT, p), get(h, at.STEP_AT, p + 1) - 1, clock(h, i)
    strict = _has(bits, get(h, at.STRICT_FILTER, p))
    hit_row = row
    for s in range(last, first, -1):
        fits = _has(bits, get(h, at.STEP_FILTER, s))
        if not fits and not strict:
            continue
        place = waiting_at(h, slot, s - 1 - p)
        waits = load(place, at.WAITING)
        if waits < 0:
            continue
        step_row = match_step_row(h, waits)
        began = clock(h, load(step_row, at.BEGAN))
        if fits and clock(h, load(step_row, at.BY)) <= now <= began + get(h, at.WITHIN, p):
            store(place, at.WAITING, -1)
            hit_row = _take(h, slot, p, s, i, hit_row, waits)
        elif strict and began <= now:
            store(place, at.WAITING, -1)
            _free(h, waits)
    if _has(bits, get(h, at.STEP_FILTER, first)):
        hit_row = _take(h, slot, p, first, i, hit_row, -1)
    if _has(bits, get(h, at.UNTIL_FILTER, p)):
        _end(h, slot, first - p, last - p, now)


@jit
def _take(h: int, slot: int, p: int, s: int, i: int, hit_row: int, prior: int) -> Any:
    """Record ``i`` matches step ``s`` after matched step ``prior`` (-1: none): a hit, or a partial match that waits.

    ``hit_row``: the row that a hit is noted at, or -1; the same for the next steps, which of
    a probe is -1 after its first.
    """
    done = s == get(h, at.STEP_AT, p + 1) - 1
    if hit_row >= 0 and (done or get(h, at.PROBES, p) != 0) and _judges(h, p, hit_row):
        if get(h, at.LINE_BYTES):  # where any has a cooldown: what is held back by it still decides
            mark(h, i, p)
        if not cools(h, slot, p, i):
            _note(h, p, s, i, hit_row, prior)
        if get(h, at.PROBES, p) != 0:
            hit_row = -1
    if done:
        _free(h, prior)
        return hit_row
    began = i if prior < 0 else get(h, at.BEGAN, prior)
    place = waiting_at(h, slot, s - p)
    waits = load(place, at.WAITING)
    if waits >= 0 and clock(h, get(h, at.BEGAN, waits)) > clock(h, began):
        _free(h, prior)
        return hit_row
    _free(h, waits)
    new = get(h, at.FREE_MATCH_STEP)
    if new >= 0:
        after = get(h, at.PRIOR, new)
        put(h, at.FREE_MATCH_STEP, after)
        prefetch(match_step_row(h, after))  # rows that dropping freed were not touched for long
    else:
        new = count_up(h, at.N_MATCH_STEPS)
    step_row = match_step_row(h, new)
    store(step_row, at.BY, i)
    store(step_row, at.PRIOR, prior)
    store(step_row, at.BEGAN, began)
    store(place, at.WAITING, new)
    return hit_row


@jit
def _end(h: int, slot: int, start: int, end: int, now: int) -> None:
    """End what waits at the places from ``start`` to ``end`` and did not begin after ``now``."""
    for k in range(start, end):
        place = waiting_at(h, slot, k)
        waits = load(place, at.WAITING)
        if waits >= 0 and clock(h, get(h, at.BEGAN, waits)) <= now:
            store(place, at.WAITING, -1)
            _free(h, waits)


@jit
def _free(h: int, waits: int) -> None:
    """The rows of the steps of partial matches from ``waits`` back to the first are free; none where it is -1."""
    if waits < 0:
        return
    first = match_step_row(h, waits)
    while load(first, at.PRIOR) >= 0:
        first = match_step_row(h, load(first, at.PRIOR))
    store(first, at.PRIOR, get(h, at.FREE_MATCH_STEP))
    put(h, at.FREE_MATCH_STEP, waits)


@jit
def _note(h: int, p: int, s: int, i: int, row: int, prior: int) -> None:
    """Write a hit of the steps up to ``s`` down, with the last records that took them."""
    count = s + 1 - get(h, at.STEP_AT, p)
    began = i if prior < 0 else get(h, at.BEGAN, prior)
    n = note_hit(h, p, row, count, 0, 0.0, count)
    start, to = note_window(h, n, 1, clock(h, began), clock(h, i), count)
    record = i
    while to > start:
        to -= 1
        put(h, at.OUT_EVIDENCE, to, record)
        if prior >= 0:
            record, prior = get(h, at.BY, prior), get(h, at.PRIOR, prior)
