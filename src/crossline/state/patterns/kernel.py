"""The loop over a batch's rows: take a record in, offer it to the steps of each pattern, note the hits."""

from __future__ import annotations

from typing import Any

from crossline.state.memory import layout as at
from crossline.state.memory.access import inlined, jit, load_i32, load_u8, prefetch, store_32, store_64
from crossline.state.memory.header import bits_at, clock, item, row_of, slot_row, taken_row, tally, waiting_at, word
from crossline.state.windows.ahead import SCOUTS_EACH, find_keys, look_ahead
from crossline.state.windows.kernel import take_in
from crossline.state.windows.verdicts.compare import count_up
from crossline.state.windows.verdicts.emission import cools, hits_fit, mark, note_hit, note_window
from crossline.state.windows.verdicts.judging import in_force

WAITING, NAMED = 10, 5  # rows ahead: when taken steps are called for, and when the records that they name


@jit
def judge_rows(h: int, start: int) -> Any:
    """Take rows in from ``start``, and offer each to the steps of all patterns; hits are noted where TELLING is not 0.

    The row to go on from: that of the batch's end, or earlier where what another row gives may not fit.
    """
    patterns, rows, width = word(h, at.LINES), word(h, at.ROWS), word(h, at.ENTRY_BYTES)
    if start == 0:
        find_keys(h)
    for row in range(start, rows):
        look_ahead(h, row, rows)
        _look_ahead(h, row, rows)
        if not hits_fit(h, patterns):
            return row
        if tally(h, at.N_TAKEN) + word(h, at.STEPS) > word(h, at.TAKEN_ROOM):
            return row
        i = take_in(h, row, item(h, at.INGEST_MS, row) - word(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        _stand(h, slot, i)
        bits = word(h, at.ENTRIES) + width * row
        for p in range(patterns):
            if _concerned(h, p, bits, width):
                _offer(h, slot, i, row if word(h, at.NOTES_HITS) != 0 else -1, p, bits)
    return rows


@jit
def offer_all(h: int, start: int) -> Any:
    """Offer the records that are held, from number ``start``, to the steps of all patterns. None of it is a hit.

    The record to go on from, as of ``judge_rows``.
    """
    patterns, records, width = word(h, at.LINES), tally(h, at.N_RECORDS), word(h, at.ENTRY_BYTES)
    for i in range(start, records):
        if tally(h, at.N_TAKEN) + word(h, at.STEPS) > word(h, at.TAKEN_ROOM):
            return i
        slot, bits = load_i32(row_of(h, i) + at.SLOT), bits_at(h, i, 0)
        for p in range(patterns):
            if _concerned(h, p, bits, width):
                _offer(h, slot, i, -1, p, bits)
    return records


@inlined
def _look_ahead(h: int, row: int, rows: int) -> None:
    """Call for what waits for the rows soon to come, and then for the records that it names."""
    places = min(word(h, at.WAITS), SCOUTS_EACH)
    if row + WAITING < rows:
        slot = load_i32(word(h, at.KEY_SLOT) + 4 * load_i32(word(h, at.KEY_INDEX) + 4 * (row + WAITING)))
        for k in range(places if slot >= 0 else 0):
            prefetch(taken_row(h, load_i32(waiting_at(h, slot, k))))
    if row + NAMED < rows:
        slot = load_i32(word(h, at.KEY_SLOT) + 4 * load_i32(word(h, at.KEY_INDEX) + 4 * (row + NAMED)))
        for k in range(places if slot >= 0 else 0):
            waits = load_i32(waiting_at(h, slot, k))
            if waits >= 0:
                prefetch(row_of(h, load_i32(taken_row(h, waits) + at.BY)))
                prefetch(row_of(h, load_i32(taken_row(h, waits) + at.BEGAN)))


@inlined
def _stand(h: int, slot: int, i: int) -> None:
    """Patterns need no list of a key's records: only its last by clock is known, with which the key goes."""
    row, tail_at = row_of(h, i), slot_row(h, slot) + at.TAIL
    store_32(row + at.BEFORE, -1)
    store_32(row + at.AFTER, -1)
    tail = load_i32(tail_at)
    if tail < 0 or clock(h, tail) <= clock(h, i):
        store_32(tail_at, i)


@inlined
def _concerned(h: int, p: int, bits: int, width: int) -> Any:
    """Whether any of the row's entries means anything to pattern ``p``."""
    mask, some = word(h, at.CONCERNS) + width * p, 0
    for b in range(width):
        some |= load_u8(mask + b) & load_u8(bits + b)
    return some != 0


@jit
def _has(bits: int, entry: int) -> Any:
    """Whether a row is in an entry; in none below 0."""
    return entry >= 0 and (load_u8(bits + (entry >> 3)) >> (entry & 7)) & 1 != 0


@jit
def _judges(h: int, p: int, row: int) -> Any:
    """Whether pattern ``p`` judges the record of ``row``, so that a hit at it is one."""
    return in_force(h, p, item(h, at.INGEST_MS, row), item(h, at.LATENESS_MS, row))


@jit
def _offer(h: int, slot: int, i: int, row: int, p: int, bits: int) -> None:
    """Offer record ``i`` to the steps of pattern ``p``, the last first, and then let it end what it ends.

    ``row``: of the batch, at which a hit is noted; -1: it is not.
    """
    first, last, now = item(h, at.STEP_AT, p), item(h, at.STEP_AT, p + 1) - 1, clock(h, i)
    strict = _has(bits, item(h, at.STRICT_ENTRY, p))
    told = row
    for s in range(last, first, -1):
        fits = _has(bits, item(h, at.STEP_ENTRY, s))
        if not fits and not strict:
            continue
        place = waiting_at(h, slot, s - 1 - p)
        waits = load_i32(place)
        if waits < 0:
            continue
        taken = taken_row(h, waits)
        began = clock(h, load_i32(taken + at.BEGAN))
        if fits and clock(h, load_i32(taken + at.BY)) <= now <= began + item(h, at.WITHIN, p):
            store_32(place, -1)
            told = _take(h, slot, p, s, i, told, waits)
        elif strict and began <= now:
            store_32(place, -1)
            _free(h, waits)
    if _has(bits, item(h, at.STEP_ENTRY, first)):
        told = _take(h, slot, p, first, i, told, -1)
    if _has(bits, item(h, at.UNTIL_ENTRY, p)):
        _end(h, slot, first - p, last - p, now)


@jit
def _take(h: int, slot: int, p: int, s: int, i: int, told: int, prior: int) -> Any:
    """Record ``i`` takes step ``s`` after taken step ``prior`` (-1: it is the first): a hit, or a match that waits.

    ``told``: the row that a hit is noted at, or -1; the same for the steps that the record is offered to next, which of
    a probe is -1 after its first.
    """
    done = s == item(h, at.STEP_AT, p + 1) - 1
    if told >= 0 and (done or item(h, at.PROBES, p) != 0) and _judges(h, p, told):
        if word(h, at.LINE_BYTES):  # where any has a cooldown: what is held back by it still decides
            mark(h, i, p)
        if not cools(h, slot, p, i):
            _note(h, p, s, i, told, prior)
        if item(h, at.PROBES, p) != 0:
            told = -1
    if done:
        _free(h, prior)
        return told
    began = i if prior < 0 else load_i32(taken_row(h, prior) + at.BEGAN)
    place = waiting_at(h, slot, s - p)
    waits = load_i32(place)
    if waits >= 0 and clock(h, load_i32(taken_row(h, waits) + at.BEGAN)) > clock(h, began):
        _free(h, prior)
        return told
    _free(h, waits)
    new = tally(h, at.FREE_TAKEN)
    if new >= 0:
        store_64(h + 8 * at.FREE_TAKEN, load_i32(taken_row(h, new) + at.PRIOR))
    else:
        new = count_up(h, at.N_TAKEN)
    taken = taken_row(h, new)
    store_32(taken + at.BY, i)
    store_32(taken + at.PRIOR, prior)
    store_32(taken + at.BEGAN, began)
    store_32(place, new)
    return told


@jit
def _end(h: int, slot: int, start: int, end: int, now: int) -> None:
    """End what waits at the places from ``start`` to ``end`` and did not begin after ``now``."""
    for k in range(start, end):
        place = waiting_at(h, slot, k)
        waits = load_i32(place)
        if waits >= 0 and clock(h, load_i32(taken_row(h, waits) + at.BEGAN)) <= now:
            store_32(place, -1)
            _free(h, waits)


@jit
def _free(h: int, waits: int) -> None:
    """The rows of the taken steps from ``waits`` back to the first are free; none where it is -1."""
    if waits < 0:
        return
    first = taken_row(h, waits)
    while load_i32(first + at.PRIOR) >= 0:
        first = taken_row(h, load_i32(first + at.PRIOR))
    store_32(first + at.PRIOR, tally(h, at.FREE_TAKEN))
    store_64(h + 8 * at.FREE_TAKEN, waits)


@jit
def _note(h: int, p: int, s: int, i: int, row: int, prior: int) -> None:
    """Write a hit of the steps up to ``s`` down, with the last records that took them."""
    count = s + 1 - item(h, at.STEP_AT, p)
    began = i if prior < 0 else load_i32(taken_row(h, prior) + at.BEGAN)
    n = note_hit(h, p, row, count, 0, 0.0, count)
    start, to = note_window(h, n, 1, clock(h, began), clock(h, i), count)
    evidence, record = word(h, at.OUT_EVIDENCE), i
    while to > start:
        to -= 1
        store_32(evidence + 4 * to, record)
        if prior >= 0:
            record, prior = load_i32(taken_row(h, prior) + at.BY), load_i32(taken_row(h, prior) + at.PRIOR)
