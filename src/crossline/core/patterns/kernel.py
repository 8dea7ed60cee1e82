"""The loop over a batch's rows: take a record in, offer it to the steps of each pattern, note the hits."""

from __future__ import annotations

from typing import Any

from crossline.core.windows.ahead import SCOUTS_EACH, find_keys, look_ahead
from crossline.core.windows.kernel import take_in
from crossline.core.windows.memory import layout as at
from crossline.core.windows.memory.access import (
    inlined,
    jit,
    load_i32,
    load_u8,
    prefetch,
    store_8,
    store_32,
    store_64,
    store_f64,
)
from crossline.core.windows.memory.header import (
    clock,
    item,
    row_of,
    slot_row,
    taken_row,
    tally,
    waiting_at,
    word,
)
from crossline.core.windows.verdicts.compare import EVIDENCE_MAX, count_up

WAITING, NAMED = 10, 5  # rows ahead: when taken steps are called for, and when the records that they name


@jit
def judge_rows(h: int, start: int) -> Any:
    """Judge rows from ``start``.

    The row to go on from: that of the batch's end, or earlier where what another row gives may not fit.
    """
    patterns, rows, width = word(h, at.LINES), word(h, at.ROWS), word(h, at.ENTRY_BYTES)
    if start == 0:
        find_keys(h)
    for row in range(start, rows):
        look_ahead(h, row, rows)
        _look_ahead(h, row, rows)
        if tally(h, at.N_HITS) + patterns > word(h, at.OUT_ROOM):
            return row
        if tally(h, at.N_EVIDENCE) + patterns * EVIDENCE_MAX > word(h, at.EVIDENCE_ROOM):
            return row
        if tally(h, at.N_TAKEN) + word(h, at.STEPS) > word(h, at.TAKEN_ROOM):
            return row
        i = take_in(h, row, item(h, at.INGEST_MS, row) - word(h, at.DUPLICATE_MS))
        if i < 0:
            continue
        slot = load_i32(row_of(h, i) + at.SLOT)
        _stand(h, slot, i)
        _mark_sets(h, row)
        bits = word(h, at.ENTRIES) + width * row
        for p in range(patterns):
            if load_u8(word(h, at.ACTIVE) + item(h, at.LINE_CLASS, p)) & load_u8(word(h, at.ASKED) + p) == 0:
                continue
            if _concerned(h, p, bits, width):
                _offer(h, slot, i, row, p, bits)
    return rows


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
def _mark_sets(h: int, row: int) -> None:
    """Mark the classes of patterns that judge the row."""
    ingest, lateness = item(h, at.INGEST_MS, row), item(h, at.LATENESS_MS, row)
    for k in range(word(h, at.SPAN_SETS)):
        judges = 0
        for span in range(item(h, at.SPAN_AT, k), item(h, at.SPAN_AT, k + 1)):
            if item(h, at.SPAN_FROM, span) <= ingest < item(h, at.SPAN_UNTIL, span):
                judges = 1
        store_8(word(h, at.ACTIVE) + k, judges if lateness <= item(h, at.CLASS_LATE, k) else 0)


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
def _offer(h: int, slot: int, i: int, row: int, p: int, bits: int) -> None:
    """Offer record ``i`` to the steps of pattern ``p``, the last first, and then let it end what it ends."""
    first, last, now = item(h, at.STEP_AT, p), item(h, at.STEP_AT, p + 1) - 1, clock(h, i)
    strict = _has(bits, item(h, at.STRICT_ENTRY, p))
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
            _take(h, slot, p, s, s == last, i, row, waits)
        elif strict and began <= now:
            store_32(place, -1)
            _free(h, waits)
    if _has(bits, item(h, at.STEP_ENTRY, first)):
        _take(h, slot, p, first, first == last, i, row, -1)
    if _has(bits, item(h, at.UNTIL_ENTRY, p)):
        _end(h, slot, first - p, last - p, now)


@jit
def _take(h: int, slot: int, p: int, s: int, done: bool, i: int, row: int, prior: int) -> None:
    """Record ``i`` takes step ``s`` after taken step ``prior`` (-1: it is the first): a hit, or a match that waits."""
    if done:
        _note(h, p, i, row, prior)
        _free(h, prior)
        return
    began = i if prior < 0 else load_i32(taken_row(h, prior) + at.BEGAN)
    place = waiting_at(h, slot, s - p)
    waits = load_i32(place)
    if waits >= 0 and clock(h, load_i32(taken_row(h, waits) + at.BEGAN)) > clock(h, began):
        _free(h, prior)
        return
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
def _note(h: int, p: int, i: int, row: int, prior: int) -> None:
    """Write a hit down, with the last records that took its steps."""
    n, start = count_up(h, at.N_HITS), tally(h, at.N_EVIDENCE)
    count = item(h, at.STEP_AT, p + 1) - item(h, at.STEP_AT, p)
    to = start + min(count, EVIDENCE_MAX)
    began = i if prior < 0 else load_i32(taken_row(h, prior) + at.BEGAN)
    store_32(word(h, at.OUT_LINE) + 4 * n, p)
    store_32(word(h, at.OUT_ROW) + 4 * n, row)
    store_8(word(h, at.OUT_IS_INT) + n, 1)
    store_64(word(h, at.OUT_VALUE_I) + 8 * n, count)
    store_64(word(h, at.OUT_VALUE_UP) + 8 * n, 0)
    store_f64(word(h, at.OUT_VALUE_F) + 8 * n, 0.0)
    store_64(word(h, at.OUT_COUNT) + 8 * n, count)
    store_64(word(h, at.OUT_START) + 8 * n, clock(h, began))
    store_64(word(h, at.OUT_END) + 8 * n, clock(h, i))
    store_64(word(h, at.OUT_EVIDENCE_END) + 8 * n, to)
    store_64(h + 8 * at.N_EVIDENCE, to)
    evidence, record = word(h, at.OUT_EVIDENCE), i
    while to > start:
        to -= 1
        store_32(evidence + 4 * to, record)
        if prior >= 0:
            record, prior = load_i32(taken_row(h, prior) + at.BY), load_i32(taken_row(h, prior) + at.PRIOR)
