"""A window that moves along its key's list: first record, last considered, count, and accumulators.

A window is the run of records from its first to its last considered; accumulators hold those of them that are
entries. It moves by steps of one record at either end, forwards for records in order and back for late ones, so a
step costs the same whatever the window's length, and a window that starts empty at the head of the list catches up
by itself.
"""

from __future__ import annotations

from typing import Any

from crossline.state.arithmetic.rolling_sums import (
    add_decayed,
    add_deviation,
    add_float,
    add_whole,
    clear_deviation,
    take_whole,
)
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.addresses import (
    after,
    before,
    below_of,
    clock,
    deviation_at,
    distinct_at,
    enters,
    pointer_at,
    precedes,
    rough_at,
    same_at,
    sum_f_at,
    sum_i_at,
    value_f,
    value_i,
    window_at,
)
from crossline.state.memory.fields import get, load, put, store
from crossline.state.memory.layout import (
    BEGINS,
    BELOW,
    COUNT_OF,
    DC_AT,
    DC_LINK,
    DISTINCT,
    ENDS,
    FIRST_OF,
    HEAD,
    LAST_OF,
    N_WINDOWS,
    PAIR,
    PAIR_REST,
    PLAIN,
    POINTER,
    PT_AT,
    PT_CHAIN,
    PT_KIND,
    ROUGH,
    SAME_AFTER,
    SAME_BEFORE,
    SD_AT,
    SD_COL,
    SD_HALF,
    SF_AT,
    SF_COL,
    SI_AT,
    SI_COL,
    SUM_LOW,
    SUM_UP,
    UP,
    WINDOW_FILTER,
)
from crossline.state.records.lists import beats
from crossline.state.windows.program import FIRST, LAST, MAX

UNKNOWN = -2  # a pointer that must be searched; -1 is one into an empty window


@jit
def _held(h: int, record: int, first: int, last: int) -> Any:
    """Whether the record (-1: none) is in the run from ``first`` (-1: empty run) to ``last``."""
    return record >= 0 and first >= 0 and not precedes(h, record, first) and not precedes(h, last, record)


@jit
def _only_one(h: int, k: int, r: int, first: int, last: int) -> Any:
    """Whether no other record from ``first`` to ``last`` has the value of ``r``, for distinct count ``k``."""
    at = same_at(h, r, get(h, DC_LINK, k))
    return not _held(h, load(at, SAME_BEFORE), first, last) and not _held(h, load(at, SAME_AFTER), first, last)


@inlined
def add(h: int, slot: int, c: int, r: int, first: int, last: int) -> None:
    """Take record ``r`` into cursor ``c``; ``first`` and ``last`` are the run without it."""
    if not enters(h, r, get(h, WINDOW_FILTER, c)):
        return
    window = window_at(h, slot, c)
    store(window, COUNT_OF, load(window, COUNT_OF) + 1)
    if get(h, PLAIN, c) == 0:
        _add_values(h, slot, c, r, first, last)


@inlined
def _append(h: int, slot: int, c: int, r: int, first: int) -> None:
    """As ``add``, of the record that stands directly behind the run, which begins with ``first``."""
    if not enters(h, r, get(h, WINDOW_FILTER, c)):
        return
    window = window_at(h, slot, c)
    store(window, COUNT_OF, load(window, COUNT_OF) + 1)
    if get(h, PLAIN, c) == 0:
        _append_values(h, slot, c, r, first)


@jit
def _append_values(h: int, slot: int, c: int, r: int, first: int) -> None:
    """As ``_add_values``: nothing in the run stands behind ``r``, so fewer records have to be looked at."""
    _add_sums(h, slot, c, r)
    for k in range(get(h, DC_AT, c), get(h, DC_AT, c + 1)):
        like = load(same_at(h, r, get(h, DC_LINK, k)), SAME_BEFORE)
        if like < 0 or first < 0 or precedes(h, like, first):
            at = distinct_at(h, slot, k)
            store(at, DISTINCT, load(at, DISTINCT) + 1)
    for k in range(get(h, PT_AT, c), get(h, PT_AT, c + 1)):
        at, kind = pointer_at(h, slot, k), get(h, PT_KIND, k)
        f = load(at, POINTER)
        if kind == LAST:
            if f != UNKNOWN:
                store(at, POINTER, r)
        elif f == -1 or (f >= 0 and kind != FIRST and not beats(h, get(h, PT_CHAIN, k), f, r)):
            store(at, POINTER, r)  # of equal values the later one, which stays longer


@jit
def _add_values(h: int, slot: int, c: int, r: int, first: int, last: int) -> None:
    """Take record ``r`` into the accumulators of cursor ``c``."""
    _add_sums(h, slot, c, r)
    for k in range(get(h, DC_AT, c), get(h, DC_AT, c + 1)):
        if _only_one(h, k, r, first, last):
            at = distinct_at(h, slot, k)
            store(at, DISTINCT, load(at, DISTINCT) + 1)
    for k in range(get(h, PT_AT, c), get(h, PT_AT, c + 1)):
        _point(h, pointer_at(h, slot, k), k, r)


@inlined
def _add_sums(h: int, slot: int, c: int, r: int) -> None:
    """Take the values of record ``r`` into the sums of cursor ``c``."""
    for k in range(get(h, SI_AT, c), get(h, SI_AT, c + 1)):
        add_whole(sum_i_at(h, slot, k), value_i(h, r, get(h, SI_COL, k)))
    for k in range(get(h, SF_AT, c), get(h, SF_AT, c + 1)):
        add_float(sum_f_at(h, slot, k), rough_at(h, slot, k), value_f(h, r, get(h, SF_COL, k)))
    for k in range(get(h, SD_AT, c), get(h, SD_AT, c + 1)):
        if get(h, SD_HALF, k):
            add_decayed(h, deviation_at(h, slot, k), r, get(h, SD_COL, k), get(h, SD_HALF, k), 1.0)
        else:
            add_deviation(h, deviation_at(h, slot, k), r, get(h, SD_COL, k), 1.0)


@jit
def _point(h: int, at: int, k: int, r: int) -> None:
    """Move pointer ``k``, at ``at``, to the added record ``r`` where that is the better one."""
    f, kind = load(at, POINTER), get(h, PT_KIND, k)
    if f == UNKNOWN:
        return
    if f < 0:
        better = True
    elif kind == FIRST:
        better = precedes(h, r, f)
    elif kind == LAST:
        better = precedes(h, f, r)
    elif precedes(h, f, r):
        better = not beats(h, get(h, PT_CHAIN, k), f, r)  # of equal values the later one, which stays longer
    else:
        better = beats(h, get(h, PT_CHAIN, k), r, f)
    if better:
        store(at, POINTER, r)


@inlined
def remove(h: int, slot: int, c: int, r: int, first: int, last: int) -> None:
    """Take record ``r``, at either end of cursor ``c``'s run, out; ``first`` and ``last`` are the run without it."""
    if not enters(h, r, get(h, WINDOW_FILTER, c)):
        return
    window = window_at(h, slot, c)
    left = load(window, COUNT_OF) - 1
    store(window, COUNT_OF, left)
    if get(h, PLAIN, c) == 0:
        _remove_values(h, slot, c, r, first, last, left)


@jit
def _remove_values(h: int, slot: int, c: int, r: int, first: int, last: int, left: int) -> None:
    """Take record ``r`` out of the accumulators of cursor ``c``, in which ``left`` entries remain."""
    if left == 0:
        _clear(h, slot, c)
        return
    for k in range(get(h, SI_AT, c), get(h, SI_AT, c + 1)):
        take_whole(sum_i_at(h, slot, k), value_i(h, r, get(h, SI_COL, k)))
    for k in range(get(h, SF_AT, c), get(h, SF_AT, c + 1)):
        add_float(sum_f_at(h, slot, k), rough_at(h, slot, k), -value_f(h, r, get(h, SF_COL, k)))
    for k in range(get(h, SD_AT, c), get(h, SD_AT, c + 1)):
        if get(h, SD_HALF, k):
            add_decayed(h, deviation_at(h, slot, k), r, get(h, SD_COL, k), get(h, SD_HALF, k), -1.0)
        else:
            add_deviation(h, deviation_at(h, slot, k), r, get(h, SD_COL, k), -1.0)
    for k in range(get(h, DC_AT, c), get(h, DC_AT, c + 1)):
        if _only_one(h, k, r, first, last):
            at = distinct_at(h, slot, k)
            store(at, DISTINCT, load(at, DISTINCT) - 1)
    for k in range(get(h, PT_AT, c), get(h, PT_AT, c + 1)):
        at = pointer_at(h, slot, k)
        if load(at, POINTER) == r:
            store(at, POINTER, _next_point(h, k, c, r, last))


@jit
def _clear(h: int, slot: int, c: int) -> None:
    """The accumulators of an empty window: exactly nothing."""
    for k in range(get(h, SI_AT, c), get(h, SI_AT, c + 1)):
        put(h, SUM_LOW, slot, k, 0)
        put(h, SUM_UP, slot, k, 0)
    for k in range(get(h, SF_AT, c), get(h, SF_AT, c + 1)):
        put(h, PAIR, slot, k, 0.0)
        put(h, PAIR_REST, slot, k, 0.0)
        put(h, ROUGH, slot, k, 0)
    for k in range(get(h, SD_AT, c), get(h, SD_AT, c + 1)):
        clear_deviation(deviation_at(h, slot, k))
    for k in range(get(h, DC_AT, c), get(h, DC_AT, c + 1)):
        put(h, DISTINCT, slot, k, 0)
    for k in range(get(h, PT_AT, c), get(h, PT_AT, c + 1)):
        put(h, POINTER, slot, k, -1)


@jit
def _next_point(h: int, k: int, c: int, r: int, last: int) -> Any:
    """Where pointer ``k`` goes when its record ``r`` leaves a window in which other entries remain."""
    kind, entry = get(h, PT_KIND, k), get(h, WINDOW_FILTER, c)
    if kind <= MAX:
        chain = get(h, PT_CHAIN, k)
        up = get(h, UP, r, chain)
        if up >= 0 and get(h, BELOW, up, chain) == r and not precedes(h, last, up):
            return up
        return UNKNOWN
    while True:
        r = after(h, r) if kind == FIRST else before(h, r)
        if enters(h, r, entry):
            return r


@jit
def pointed(h: int, slot: int, c: int, k: int) -> Any:
    """The record of pointer ``k``, searched down the chain from the window's end where it is not known.

    The window has entries.
    """
    at = pointer_at(h, slot, k)
    f = load(at, POINTER)
    if f >= 0:
        return f
    first, f = get(h, FIRST_OF, slot, c), get(h, LAST_OF, slot, c)
    while not enters(h, f, get(h, WINDOW_FILTER, c)):
        f = before(h, f)
    chain = get(h, PT_CHAIN, k)
    below = below_of(h, f, chain)
    while below >= 0 and not precedes(h, below, first):
        f = below
        below = below_of(h, f, chain)
    store(at, POINTER, f)
    return f


@jit
def insert(h: int, slot: int, i: int) -> None:
    """Record ``i`` was put between older ones: windows whose run it is in, or directly before, take it in."""
    nxt = after(h, i)
    for c in range(get(h, N_WINDOWS)):
        at = window_at(h, slot, c)
        first, last = load(at, FIRST_OF), load(at, LAST_OF)
        if first < 0 or precedes(h, last, i):
            continue
        if nxt == first:
            # It may be inside the left bound. If it is not, neither is it at the next move, which then drops it.
            add(h, slot, c, i, first, last)
            store(at, FIRST_OF, i)
        elif precedes(h, first, i):
            add(h, slot, c, i, first, last)


@inlined
def drop_left(h: int, slot: int, c: int, low: int) -> None:
    """Drop from cursor ``c`` what is before clock ``low``."""
    at = window_at(h, slot, c)
    first, last = load(at, FIRST_OF), load(at, LAST_OF)
    while first >= 0 and clock(h, first) < low:
        r = first
        first = after(h, r) if r != last else -1
        store(at, FIRST_OF, first)
        remove(h, slot, c, r, first, last)


@inlined
def move(h: int, slot: int, c: int, i: int, newest: bool, with_i: bool) -> None:
    """Move cursor ``c`` to the window of record ``i``, without ``i`` where that is not wanted or the end is open.

    ``newest``: ``i`` is the last of its key's list, so nothing has to move back.
    """
    now = clock(h, i)
    low = now - get(h, BEGINS, c)
    high = now - get(h, ENDS, c)
    if not newest:
        _back(h, slot, c, i, high, with_i)
    drop_left(h, slot, c, low)
    at = window_at(h, slot, c)
    first, last = load(at, FIRST_OF), load(at, LAST_OF)
    nxt = after(h, last) if last >= 0 else get(h, HEAD, slot)
    while nxt >= 0 and clock(h, nxt) <= high and (with_i or nxt != i):
        if first >= 0 or clock(h, nxt) >= low:
            _append(h, slot, c, nxt, first)
            if first < 0:
                first = nxt
        last = nxt
        nxt = after(h, last)
    store(at, FIRST_OF, first)
    store(at, LAST_OF, last)
    if not newest:
        _widen(h, slot, c, low)


@jit
def _back(h: int, slot: int, c: int, i: int, high: int, with_i: bool) -> None:
    """Take off the right end what is later than ``high``, and where ``i`` is not included what does not precede it."""
    at, now = window_at(h, slot, c), clock(h, i)
    first, last = load(at, FIRST_OF), load(at, LAST_OF)
    while last >= 0 and (clock(h, last) > high or (not with_i and last >= i and clock(h, last) == now)):
        r = last
        last = before(h, r)
        store(at, LAST_OF, last)
        if first >= 0:
            if r == first:
                first = -1
                store(at, FIRST_OF, first)
            remove(h, slot, c, r, first, last)


@jit
def _widen(h: int, slot: int, c: int, low: int) -> None:
    """Take in on the left what is not before clock ``low``."""
    at = window_at(h, slot, c)
    first, last = load(at, FIRST_OF), load(at, LAST_OF)
    nxt = before(h, first) if first >= 0 else last
    while nxt >= 0 and clock(h, nxt) >= low:
        add(h, slot, c, nxt, first, last)
        first = nxt
        store(at, FIRST_OF, first)
        nxt = before(h, nxt)
