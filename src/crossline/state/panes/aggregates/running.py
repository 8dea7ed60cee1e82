"""Running aggregates of a window: records and panes are added to them and subtracted again, without any loss."""

from __future__ import annotations

import math
from typing import Any

from crossline.state.arithmetic.double_double import two_sum
from crossline.state.memory.access import jit
from crossline.state.memory.fields import get, load, store
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import acc_at, enters, pane_at, part_at, value_at
from crossline.state.panes.program import P_COUNT, P_LEAST_FLOAT, P_LEAST_INT, P_MOST_INT, P_SUM_FLOAT, P_SUM_INT

UP = at.ACC_UP
KNOWN, UNKNOWN, EMPTY = 1, 2, 0  # of the least and the greatest


@jit
def add_wide(acc: int, low: int, up: int) -> None:
    """Add low + up * 2^64 to the sum of integers at ``acc``."""
    before = load(acc, at.ACC)
    total = before + low
    carry = 0
    if (before ^ total) & (low ^ total) < 0:
        carry = 1 if low > 0 else -1
    store(acc, at.ACC, total)
    store(acc, at.ACC_UP, load(acc, at.ACC_UP) + up + carry)


@jit
def take_wide(acc: int, low: int, up: int) -> None:
    """Take low + up * 2^64 off the sum of integers at ``acc``."""
    before = load(acc, at.ACC)
    total = before - low
    carry = 0
    if (before ^ low) & (before ^ total) < 0:
        carry = 1 if low < 0 else -1
    store(acc, at.ACC, total)
    store(acc, at.ACC_UP, load(acc, at.ACC_UP) - up + carry)


@jit
def add_float(acc: int, x: float) -> None:
    """Add ``x`` to the pair at ``acc``, whose high part is NaN from when it is no longer exact."""
    t, error = two_sum(load(acc, at.PAIR), x)
    u, lost = two_sum(load(acc, at.PAIR_REST), error)
    high = t + u
    store(acc, at.PAIR, high if lost == 0.0 else math.nan)
    store(acc, at.PAIR_REST, u - (high - t))


@jit
def smaller(kind: int, a: int, b: int) -> Any:
    """Whether the value at address ``a`` is beyond that at ``b``: less, or for the greatest more."""
    if kind == P_LEAST_INT:
        return load(a, at.WHOLE_VALUE) < load(b, at.WHOLE_VALUE)
    if kind == P_MOST_INT:
        return load(a, at.WHOLE_VALUE) > load(b, at.WHOLE_VALUE)
    if kind == P_LEAST_FLOAT:
        return load(a, at.REAL_VALUE) < load(b, at.REAL_VALUE)
    return load(a, at.REAL_VALUE) > load(b, at.REAL_VALUE)


@jit
def _add_extreme(kind: int, acc: int, value: int) -> None:
    known = load(acc, at.ACC_UP)
    if known == EMPTY or (known == KNOWN and smaller(kind, value, acc)):
        store(acc, at.ACC, load(value, at.WHOLE_VALUE))
        store(acc, at.ACC_UP, KNOWN)


@jit
def _take_extreme(acc: int, value: int) -> None:
    if load(acc, at.ACC_UP) == KNOWN and load(acc, at.ACC) == load(value, at.WHOLE_VALUE):
        store(acc, at.ACC_UP, UNKNOWN)


@jit
def add_record(h: int, row: int, c: int, record: int) -> None:
    """Add a record to cursor ``c`` of the slot at ``row``."""
    if not enters(h, record, get(h, at.WINDOW_FILTER, c)):
        return
    for a in range(get(h, at.ACC_AT, c), get(h, at.ACC_AT, c + 1)):
        kind, acc = get(h, at.ACC_KIND, a), acc_at(h, row, a)
        if kind == P_COUNT:
            store(acc, at.ACC, load(acc, at.ACC) + 1)
        else:
            _add_value(kind, acc, value_at(record, get(h, at.PART_COL, get(h, at.ACC_PART, a))))


@jit
def _add_value(kind: int, acc: int, value: int) -> None:
    if kind == P_SUM_INT:
        add_wide(acc, load(value, at.WHOLE_VALUE), 0)
    elif kind == P_SUM_FLOAT:
        add_float(acc, load(value, at.REAL_VALUE))
    else:
        _add_extreme(kind, acc, value)


@jit
def take_record(h: int, row: int, c: int, record: int) -> None:
    """Take a record off cursor ``c`` of the slot at ``row``."""
    if not enters(h, record, get(h, at.WINDOW_FILTER, c)):
        return
    for a in range(get(h, at.ACC_AT, c), get(h, at.ACC_AT, c + 1)):
        kind, acc = get(h, at.ACC_KIND, a), acc_at(h, row, a)
        if kind == P_COUNT:
            store(acc, at.ACC, load(acc, at.ACC) - 1)
        else:
            _take_value(kind, acc, value_at(record, get(h, at.PART_COL, get(h, at.ACC_PART, a))))


@jit
def _take_value(kind: int, acc: int, value: int) -> None:
    if kind == P_SUM_INT:
        take_wide(acc, load(value, at.WHOLE_VALUE), 0)
    elif kind == P_SUM_FLOAT:
        add_float(acc, -load(value, at.REAL_VALUE))
    else:
        _take_extreme(acc, value)


@jit
def add_pane(h: int, row: int, c: int, place: int) -> None:
    """Add all of a pane to cursor ``c`` of the slot at ``row``."""
    pane = pane_at(h, place)
    n = load(pane + get(h, at.COUNT_PART, c), at.COUNTED)
    if n == 0:
        return
    for a in range(get(h, at.ACC_AT, c), get(h, at.ACC_AT, c + 1)):
        kind, acc, part = get(h, at.ACC_KIND, a), acc_at(h, row, a), part_at(h, pane, get(h, at.ACC_PART, a))
        if kind == P_COUNT:
            store(acc, at.ACC, load(acc, at.ACC) + n)
        elif kind == P_SUM_INT:
            add_wide(acc, load(part, at.SUM_LOW), load(part, at.SUM_UP))
        elif kind == P_SUM_FLOAT:
            add_float(acc, load(part, at.PAIR))  # NaN where it is wide
            add_float(acc, load(part, at.PAIR_REST))
        else:
            _add_extreme(kind, acc, part)


@jit
def take_pane(h: int, row: int, c: int, place: int) -> None:
    """Take all of a pane off cursor ``c`` of the slot at ``row``."""
    pane = pane_at(h, place)
    n = load(pane + get(h, at.COUNT_PART, c), at.COUNTED)
    if n == 0:
        return
    for a in range(get(h, at.ACC_AT, c), get(h, at.ACC_AT, c + 1)):
        kind, acc, part = get(h, at.ACC_KIND, a), acc_at(h, row, a), part_at(h, pane, get(h, at.ACC_PART, a))
        if kind == P_COUNT:
            store(acc, at.ACC, load(acc, at.ACC) - n)
        elif kind == P_SUM_INT:
            take_wide(acc, load(part, at.SUM_LOW), load(part, at.SUM_UP))
        elif kind == P_SUM_FLOAT:
            add_float(acc, -load(part, at.PAIR))
            add_float(acc, -load(part, at.PAIR_REST))
        else:
            _take_extreme(acc, part)


@jit
def clear(h: int, row: int, c: int) -> None:
    """Make the running aggregates of cursor ``c`` those of nothing."""
    for a in range(get(h, at.ACC_AT, c), get(h, at.ACC_AT, c + 1)):
        store(acc_at(h, row, a), at.ACC, 0)
        store(acc_at(h, row, a), UP, 0)
